"""Model files against the bare loop a practitioner would write: one onnxruntime session, or one LiteRT
interpreter, per core over the same prepared images.

Ours is charged for starting its processes, normalising pixels, checks and storing; the loops get inputs ready
made and are charged for their calls alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.family.model_file import ModelFile, StandIn
from engine.foreign.examine import Question, examine_files
from engine.foreign.found import find_files
from engine.predictions.gather import predict
from engine.predictions.machine import available_cores
from engine.predictions.pixels import prepare_pool
from engine.samples import DIGIT_PREPROCESSING_KERAS, FOLDER
from engine.target import open_images

BAR = 0.9
_FILES = {"static-qdq": 128, "float": 128, "lite-full-integer": 1, "lite-dynamic": 1}  # name -> loop's batch
_LOOP = """
import json, sys, time
import numpy as np
path, images, batch = json.loads(sys.argv[1])
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
started = time.perf_counter()
for i in range(0, len(x) - batch + 1, batch):
    run(x[i:i + batch])
print(time.perf_counter() - started)
"""


def main(quick: bool = False) -> list[str]:
    """Return the table as Markdown lines."""
    n_images, repetitions = (2_000, 1) if quick else (150_000, 2)
    pixels = np.random.default_rng(0).integers(0, 256, (n_images, 32, 32), dtype=np.uint8)
    lines = [
        f"{n_images:,} images of 32 x 32, {available_cores()} cores, best of {repetitions} taken in turns.",
        "",
        "| file | ours, images/s | bare loop, images/s | ours / loop | bar |",
        "|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as place:
        np.save(Path(place, "x.npy"), pixels)
        inputs = ((pixels / 255 - 0.2) / 0.3).astype(np.float32)[..., None]
        np.save(Path(place, "inputs.npy"), inputs)
        for name, batch in _FILES.items():
            rounds = [
                (_ours(name, Path(place), i), _loop(name, Path(place), batch)) for i in range(repetitions)
            ]
            ours, loop = (available_cores() * n_images / min(column) for column in zip(*rounds, strict=True))
            lines.append(f"| {name} | {ours:,.0f} | {loop:,.0f} | {ours / loop:.2f}x | {BAR}x |")
    return lines


def _model(name: str, place: Path) -> ModelFile:
    finding = find_files(FOLDER / "digits-files", place / "keep")
    examined = examine_files(finding, Question(DIGIT_PREPROCESSING_KERAS, 10), place / "keep")
    return next(model for model in examined.models if model.name == name)


def _ours(name: str, place: Path, repetition: int) -> float:
    """Seconds for one file per core over all images, processes started and results stored; the images were
    prepared before, as they are for the second file of any run.
    """
    model, images = _model(name, place), open_images(place / "x.npy")
    store = place / f"store-{name}-{repetition}"
    prepare_pool(images, model.input.preprocessing, store)
    copies = [replace(model, name=f"{name}-{i}") for i in range(available_cores())]
    started = time.perf_counter()
    predict(StandIn(tuple("0123456789")), copies, images, store=store)
    return time.perf_counter() - started


def _loop(name: str, place: Path, batch: int) -> float:
    """Seconds the slowest of one process per core takes for all images."""
    path = next((FOLDER / "digits-files").glob(f"{name}.*"))
    cores = available_cores()
    running = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                _LOOP,
                json.dumps([str(path), str(place / "inputs.npy"), batch]),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(cores)
    ]
    return max(float(process.communicate()[0]) for process in running)
