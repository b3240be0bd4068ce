"""How much each layer spoils when it alone is quantized: its distance to the teacher on calibration images,
measured once and kept.

Knows weight-swapped sessions and the store. Knows nothing of labels or of who gets which bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.deploy.allocation import CHOICES, LayerTable, kernel_bytes, monotone
from engine.deploy.calibration import Calibration
from engine.deploy.clipping import Clipped, clipped
from engine.family.quantize import dequantize
from engine.predictions.job import without_kernels
from engine.predictions.model import Session, probabilities
from engine.predictions.store import make_folder, store_key, write_text
from engine.types import FLOOR, Floats, Kernel, Progress, Teacher

# finer codes spoil less than a run can tell: scaled by squared error
MEASURED: tuple[int, ...] = (
    2,
    3,
    4,
    5,
)
IMAGES = 64
_FAMILIES, _FAMILY = 2, 72  # a measurement may cost as much as two families on the calibration split
_COMPARED = 72  # whole candidates compared for all mixed ones, about
_VERSION = "1"


@dataclass(frozen=True, eq=False)
class Probing:
    """Runs the teacher with some kernels replaced over the same few images."""

    teacher: Teacher
    graph: bytes
    images: NDArray[np.float32]
    batch: int

    @classmethod
    def of(cls, teacher: Teacher, images: NDArray[np.float32], batch: int) -> Probing:
        return cls(teacher, without_kernels(teacher.graph, teacher.kernels), images, batch)

    def probs(self, replaced: dict[str, NDArray[np.float32]]) -> NDArray[np.float64]:
        """Return the probabilities (n, K) with these kernels in place of the teacher's."""
        own = {name: np.asarray(array, np.float32) for name, array in self.teacher.weights.items()}
        session = Session(self.graph, {**own, **replaced})
        steps = range(0, len(self.images), self.batch)
        outputs = [session.outputs(self.images[start : start + self.batch]) for start in steps]
        return probabilities(np.concatenate(outputs), self.teacher.output).astype(np.float64)

    def distance(self, reference: Floats, replaced: dict[str, NDArray[np.float32]]) -> float:
        """Return the mean KL divergence from the reference (n, K); a model that yields nan is as far as can
        be.
        """
        return divergence(reference, self.probs(replaced))


@dataclass(frozen=True, eq=False)
class Reference:
    """The teacher's own answers on the images that measurements take, to compare whole candidates with."""

    probing: Probing
    probs: Floats

    @classmethod
    def of(cls, calibration: Calibration) -> Reference:
        """Take as many images as a measurement of the layers takes."""
        n = n_probed(len(calibration.teacher.kernels), len(calibration.images))
        probing = Probing.of(calibration.teacher, calibration.images[:n], calibration.batch)
        return cls(probing, probing.probs({}))

    def distance(self, replaced: dict[str, NDArray[np.float32]]) -> float:
        """Return how far the teacher is with these kernels in place of its own."""
        return self.probing.distance(self.probs, replaced)


def divergence(reference: Floats, probs: Floats) -> float:
    """Return the mean over images of KL(reference, probs), with the floor that every rule has."""
    if not np.isfinite(probs).all():
        return float(-np.log(FLOOR))
    p, q = np.maximum(reference, FLOOR), np.maximum(probs, FLOOR)
    return float(np.mean(np.sum(p * (np.log(p) - np.log(q)), axis=1)))


def n_probed(n_layers: int, n_calibration: int) -> int:
    """Return how many images each measurement may take: 64, or fewer where layers and whole candidates
    together would exceed two families on the calibration split.
    """
    affordable = _FAMILIES * _FAMILY * n_calibration // (n_layers * len(MEASURED) + _COMPARED)
    return max(1, min(IMAGES, n_calibration, affordable))


def measure(calibration: Calibration, store: Path, on_progress: Progress | None = None) -> LayerTable:
    """Return what every layer costs and spoils at every choice of bits.

    What an earlier run measured on the same images is found in the store; each layer is kept as soon as it is
    known.
    """
    teacher = calibration.teacher
    n = n_probed(len(teacher.kernels), len(calibration.images))
    key = {"teacher": teacher.fingerprint, "images": calibration.digests[:n], "version": _VERSION}
    path = make_folder(store / "sensitivity" / store_key(key)) / "harm.json"
    known = _read(path)
    waiting = [kernel for kernel in teacher.kernels if kernel.name not in known]
    if waiting:
        reference = Reference.of(calibration)
        with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as threads:
            tasks = threads.map(lambda kernel: _layer(reference, kernel), waiting)
            for kernel, harm in zip(waiting, tasks, strict=True):
                known[kernel.name] = harm
                write_text(path, json.dumps(known))
                if on_progress is not None:
                    on_progress(len(known), len(teacher.kernels))
    return _table(teacher.kernels, known)


def _read(path: Path) -> dict[str, list[float]]:
    try:
        found: dict[str, list[float]] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {name: harm for name, harm in found.items() if len(harm) == len(CHOICES)}


def _layer(reference: Reference, kernel: Kernel) -> list[float]:
    """Return the harm of one layer at every choice of bits: measured, then scaled by the weights' error."""
    weights = reference.probing.teacher.weights[kernel.name]
    made: dict[int, Clipped] = {bits: clipped(weights, kernel, bits) for bits in CHOICES}
    harm = {
        bits: max(0.0, reference.distance({kernel.name: dequantize(made[bits].quantized)}))
        for bits in MEASURED
    }
    last = MEASURED[-1]
    for bits in CHOICES:
        if bits not in harm:
            harm[bits] = harm[last] * made[bits].error / max(made[last].error, 1e-300)
    return [harm[bits] for bits in CHOICES]


def _table(kernels: Sequence[Kernel], harm: dict[str, list[float]]) -> LayerTable:
    values = monotone(np.array([harm[kernel.name] for kernel in kernels]), CHOICES)
    n_bytes = np.array([[kernel_bytes(kernel, bits) for bits in CHOICES] for kernel in kernels])
    return LayerTable(
        names=tuple(kernel.name for kernel in kernels), bits=CHOICES, n_bytes=n_bytes, harm=values
    )
