"""One pass over a family's predictions on the pool: the statistics that every label-free rule shares.

Knows logarithms, Gram matrices and optimal transport, the expensive parts. Knows nothing of rules or picks.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from engine.types import Bools, Floats, Ints

FLOOR = 1e-8  # lower clip of every probability before a logarithm; rows are not renormalised


@dataclass(frozen=True, eq=False)
class PoolStatistics:
    """What the label-free rules need, computed once per family.

    distortion (M,); confidence, neg_entropy, predicted (class), agrees (with the teacher's class) (M, N);
    gram (M, K, K) = QᵀQ of the floored probabilities; spectrum_sum (M,) = sum of singular values.
    `calibration` leading rows form the calibration split; the whole pool serves if that split is empty.
    """

    candidates: Floats
    calibration: int
    distortion: Floats
    confidence: Floats
    neg_entropy: Floats
    predicted: Ints
    agrees: Bools
    gram: Floats
    spectrum_sum: Floats
    # what a rule prepared from this pool, so that it is done once
    memo: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def calibration_rows(self) -> slice:
        return slice(0, self.calibration or None)

    @cached_property
    def transport(self) -> Floats:
        """(M,) optimal transport costs; by far the slowest statistic, hence computed only when asked for."""
        _optimal_transport()  # import once, before the threads
        # The solver releases the interpreter lock, so candidates are solved side by side.
        with ThreadPoolExecutor(os.cpu_count()) as workers:
            return np.fromiter(
                workers.map(_transport_cost, self.candidates), dtype=np.float64, count=len(self.candidates)
            )


def pool_statistics(
    teacher: Floats, candidates: Floats, *, calibration: int | None = None, floor: float = FLOOR
) -> PoolStatistics:
    """Make one pass over teacher (N, K) and candidates (M, N, K) probabilities."""
    n_candidates, n_images, n_classes = candidates.shape
    q_teacher = np.maximum(np.asarray(teacher, dtype=np.float64), floor)
    teacher_term = float(np.vdot(q_teacher, np.log(q_teacher)))
    teacher_class = np.argmax(teacher, axis=1)
    distortion, spectrum_sum = np.empty(n_candidates), np.empty(n_candidates)
    confidence, neg_entropy = np.empty((n_candidates, n_images)), np.empty((n_candidates, n_images))
    predicted = np.empty((n_candidates, n_images), dtype=np.int32)
    gram = np.empty((n_candidates, n_classes, n_classes))
    rows, floored = np.arange(n_images), np.empty((n_images, n_classes))
    for m in range(n_candidates):
        probs = np.asarray(candidates[m], dtype=np.float64)
        np.maximum(probs, floor, out=floored)
        log_q = np.log(floored)
        distortion[m] = (teacher_term - np.vdot(q_teacher, log_q)) / n_images
        neg_entropy[m] = np.einsum("ik,ik->i", floored, log_q)
        predicted[m] = np.argmax(probs, axis=1)
        confidence[m] = probs[rows, predicted[m]]
        gram[m] = floored.T @ floored
        spectrum_sum[m] = _singular_value_sum(floored, gram[m])
    split = n_images // 2 if calibration is None else calibration
    agrees = predicted == teacher_class
    return PoolStatistics(
        candidates, split, distortion, confidence, neg_entropy, predicted, agrees, gram, spectrum_sum
    )


def _singular_value_sum(probs: Floats, gram: Floats) -> float:
    if len(probs) < len(gram):
        return float(np.linalg.svd(probs, compute_uv=False).sum())
    eigenvalues = np.linalg.eigvalsh(gram)
    # Squaring halves the digits: tiny singular values (collapsed candidates) drown in rounding, so take them
    # from P itself.
    if eigenvalues[0] < 1e-12 * eigenvalues[-1]:
        return float(np.linalg.svd(probs, compute_uv=False).sum())
    return float(np.sqrt(eigenvalues).sum())


def _optimal_transport() -> ModuleType:
    # POT imports every array framework it finds, torch and TensorFlow included, unless told not to: seconds
    # and gigabytes.
    for framework in ("PYTORCH", "TENSORFLOW", "JAX", "CUPY"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{framework}", "1")
    import ot  # slow to import, and one rule needs it

    module: ModuleType = ot
    return module


def _transport_cost(probs: Floats) -> float:
    ot = _optimal_transport()
    probs = np.asarray(probs, dtype=np.float64)
    n_images, n_classes = probs.shape
    rows, classes = np.full(n_images, 1 / n_images), np.full(n_classes, 1 / n_classes)
    cost, log = ot.emd2(rows, classes, np.ascontiguousarray(1.0 - probs), numItermax=10_000_000, log=True)
    if log["warning"]:
        raise RuntimeError(f"optimal transport did not finish: {log['warning']}")
    return float(cost)
