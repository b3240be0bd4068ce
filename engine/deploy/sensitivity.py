"""How much each layer spoils when it alone is quantized: its distance to the teacher on calibration images,
measured once and kept.

Knows layers, bits and the store. Knows nothing of labels or of who gets which bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from engine.deploy.allocation import CHOICES, LayerTable, kernel_bytes, monotone
from engine.deploy.calibration import Calibration
from engine.deploy.clipping import Clipped, clipped
from engine.deploy.probing import Reference
from engine.family.quantize import dequantize
from engine.predictions.store import make_folder, store_key, write_text
from engine.types import Kernel, Progress

# finer codes spoil so little that it grows with the squared error of the weights: scaled from the last one
MEASURED: tuple[int, ...] = (2, 3, 4)
IMAGES = 64
_FAMILY = 72
_VERSION = "2"


def n_probed(n_layers: int, n_calibration: int) -> int:
    """Return how many images each measurement may take: 64, or fewer where all layers together would cost
    more than half a family on the calibration split.
    """
    affordable = _FAMILY // 2 * n_calibration // (n_layers * len(MEASURED))
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
        reference = Reference.of(calibration, n)
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
        bits: max(0.0, reference.distance({kernel.name: dequantize(made[bits].quantized)}).value)
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
