"""Model files against the bare loop a practitioner would write: one onnxruntime session, or one LiteRT
interpreter, per core over the same prepared images.

Ours is charged for starting its processes, normalising pixels, checks and storing; the loops get inputs ready
made and are charged for their calls alone. Two sizes of pool tell what a run costs from what an image
costs; a ratio of processor time beside that of the clock holds on a busy machine too.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from engine.family.model_file import ModelFile, StandIn
from engine.foreign.examine import Question, examine_files
from engine.foreign.found import find_files
from engine.predictions.gather import predict
from engine.predictions.machine import available_cores
from engine.predictions.pixels import prepare_pool
from engine.samples import DIGIT_PREPROCESSING_KERAS, FOLDER
from engine.target import input_shape, normalise, open_images
from engine.teacher.graph import plain_preprocessing
from engine.teacher.load import load_teacher
from engine.types import Preprocessing
from sample_models.quantized_files import write_onnx

BAR = 0.9


@dataclass(frozen=True)
class _Spent:
    """Seconds by the clock, and of processor time over all processes."""

    clock: float
    processor: float


@dataclass(frozen=True, eq=False)
class _Network:
    """One classifier as several files. `batches` has the bare loop's batch by file: the fastest one tried.
    `n_images` are the sizes of pool; the loop goes round the images of the first, to have them in memory.
    """

    title: str
    folder: Path
    preprocessing: Preprocessing
    batches: Mapping[str, int]
    n_images: tuple[int, int]


_LOOP = """
import json, sys, time
import numpy as np
path, images, batch, rounds = json.loads(sys.argv[1])
x = np.load(images)
if path.endswith(".onnx"):
    import onnxruntime as ort
    options = ort.SessionOptions(); options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options); name = session.get_inputs()[0].name
    run = lambda part: session.run(None, {name: part})
else:
    from ai_edge_litert.interpreter import Interpreter
    session = Interpreter(model_path=path, num_threads=1); session.allocate_tensors()
    taken, given = session.get_input_details()[0], session.get_output_details()[0]["index"]
    if taken["dtype"] is np.int8:
        scale, zero = taken["quantization"]
        x = np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8)
    def run(part):
        session.set_tensor(taken["index"], part); session.invoke(); return session.get_tensor(given)
run(x[:batch])
started, used = time.perf_counter(), time.process_time()
for _ in range(rounds):
    for i in range(0, len(x) - batch + 1, batch):
        run(x[i:i + batch])
print(time.perf_counter() - started, time.process_time() - used)
"""


def main(quick: bool = False) -> list[str]:
    """Return the tables as Markdown lines."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        for network in (_usual(quick, Path(place, "files")), _tiny(quick)):
            lines += [*_table(network, Path(place), repetitions=1 if quick else 2), ""]
    return lines


def _tiny(quick: bool) -> _Network:
    """The sample's files: networks of 35 to 80 microseconds an image."""
    batches = {"static-qdq": 128, "float": 128, "lite-full-integer": 1, "lite-dynamic": 1}
    n_images = (1_000, 2_000) if quick else (50_000, 200_000)
    return _Network("digits", FOLDER / "digits-files", DIGIT_PREPROCESSING_KERAS, batches, n_images)


def _usual(quick: bool, folder: Path) -> _Network:
    """A MobileNetV2 with random weights, quantized by onnxruntime and by TensorFlow's converter."""
    import keras
    import tensorflow as tf

    folder.mkdir()
    size = 64 if quick else 224
    keras.utils.set_random_seed(0)
    model = keras.applications.MobileNetV2(weights=None, classes=10, input_shape=(size, size, 3))
    model.save(folder.parent / "model.keras")
    examples = np.random.default_rng(1).random((8, size, size, 3), dtype=np.float32)
    preprocessing = replace(plain_preprocessing(3, size, size), layout="NHWC")
    write_onnx(load_teacher(folder.parent / "model.keras", preprocessing=preprocessing), examples, folder)
    for name, kind in (("lite-float", None), ("lite-full-integer", tf.int8)):
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        if kind is not None:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
            converter.representative_dataset = lambda: ([image[None]] for image in examples)
            converter.inference_input_type = converter.inference_output_type = kind
        (folder / f"{name}.tflite").write_bytes(converter.convert())
    batches = {"static-qdq": 2, "float": 2, "lite-full-integer": 1, "lite-float": 1}
    return _Network(
        f"MobileNetV2 at {size}", folder, preprocessing, batches, (8, 16) if quick else (1_500, 6_000)
    )


def _table(network: _Network, place: Path, repetitions: int) -> list[str]:
    ready, shape = network.n_images[0], input_shape(network.preprocessing)
    lines = [
        f"{network.title}, {available_cores()} cores, best of {repetitions} taken in turns.",
        "",
        "| file | images | ours, images/s | bare loop, images/s | ours / loop | by processor time | bar |",
        "|---|---|---|---|---|---|---|",
    ]
    pixels = np.random.default_rng(0).integers(0, 256, (max(network.n_images), *shape), dtype=np.uint8)
    np.save(place / "inputs.npy", normalise(pixels[:ready], network.preprocessing))
    for n in network.n_images:
        np.save(place / "x.npy", pixels[:n, ..., 0] if shape[-1] == 1 else pixels[:n])
        for name, batch in network.batches.items():
            ours, loops = [], []
            for _ in range(repetitions):
                ours.append(_ours(network, name, place))
                loops.append(_loop(network, name, place, batch, n // ready))
            lines.append(_row(name, n, _best(ours), _best(loops)))
            print(lines[-1], file=sys.stderr, flush=True)
        shutil.rmtree(place / "store")
    return lines


def _best(rounds: list[_Spent]) -> _Spent:
    return _Spent(min(spent.clock for spent in rounds), min(spent.processor for spent in rounds))


def _row(name: str, n: int, ours: _Spent, loop: _Spent) -> str:
    speeds = [available_cores() * n / spent.clock for spent in (ours, loop)]
    return (
        f"| {name} | {n:,} | {speeds[0]:,.0f} | {speeds[1]:,.0f} | {loop.clock / ours.clock:.2f}x |"
        f" {loop.processor / ours.processor:.2f}x | {BAR}x |"
    )


def _model(network: _Network, name: str, place: Path) -> ModelFile:
    finding = find_files(network.folder, place / "keep")
    examined = examine_files(finding, Question(network.preprocessing, 10), place / "keep")
    return next(model for model in examined.models if model.name == name)


def _ours(network: _Network, name: str, place: Path) -> _Spent:
    """What one file per core takes over all images, processes started and results stored; the images were
    prepared before, as they are for the second file of any run.
    """
    model, images, store = _model(network, name, place), open_images(place / "x.npy"), place / "store"
    prepare_pool(images, model.input.preprocessing, store)
    shutil.rmtree(store / "predictions", ignore_errors=True)
    copies = [replace(model, name=f"{name}-{i}") for i in range(available_cores())]
    started, used = time.perf_counter(), _processor_seconds()
    predict(StandIn(tuple("0123456789")), copies, images, store=store)
    return _Spent(time.perf_counter() - started, _processor_seconds() - used)


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _loop(network: _Network, name: str, place: Path, batch: int, rounds: int) -> _Spent:
    """What one process per core takes for all images: the slowest by the clock, all of their processor
    time.
    """
    path = next(network.folder.glob(f"{name}.*"))
    command = [sys.executable, "-c", _LOOP, json.dumps([str(path), str(place / "inputs.npy"), batch, rounds])]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(available_cores())
    ]
    spent = [tuple(map(float, process.communicate()[0].split())) for process in running]
    return _Spent(max(clock for clock, _ in spent), sum(processor for _, processor in spent))
