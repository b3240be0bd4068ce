"""The paper's identities and its attenuation law, as functions that report their own error on any family.

Sees arrays only. A family that violates them reveals a broken pipeline, not an interesting model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.rules.sampling import corrupt_labels
from engine.types import Floats, Ints


@dataclass(frozen=True)
class IdentityErrors:
    """Largest absolute error over candidates of each identity, and whether λ = 2 picks the Brier
    minimiser.
    """

    quadratic: float  # mean‖δ‖² - 2A = Brier(g) - Brier(f)
    teacher_part: float  # mean‖δ‖² - 2A_teach = mean(‖p_g‖² - ‖p_f‖²)
    split: float  # A = A_lab + A_teach
    selects_brier: bool


def identity_errors(teacher: Floats, candidates: Floats, labels: Ints) -> IdentityErrors:
    """Check the quadratic identities on a labeled set: teacher (n, K), candidates (M, n, K), labels (n,)."""
    p_f = np.asarray(teacher, dtype=np.float64)
    p_g = np.asarray(candidates, dtype=np.float64)
    truth = np.eye(p_f.shape[1])[labels]
    delta = p_g - p_f
    squared = np.mean(np.sum(delta**2, axis=2), axis=1)
    aligned = np.mean(np.sum(delta * (truth - p_f), axis=2), axis=1)
    label_part = np.mean(np.sum(delta * truth, axis=2), axis=1)
    teacher_part = -np.mean(np.sum(delta * p_f, axis=2), axis=1)
    brier = np.mean(np.sum((p_g - truth) ** 2, axis=2), axis=1)
    brier_teacher = np.mean(np.sum((p_f - truth) ** 2, axis=1))
    norms = np.mean(np.sum(p_g**2, axis=2) - np.sum(p_f**2, axis=1), axis=1)
    pick = int(np.argmin(squared - 2 * aligned))
    return IdentityErrors(
        quadratic=float(np.abs(squared - 2 * aligned - (brier - brier_teacher)).max()),
        teacher_part=float(np.abs(squared - 2 * teacher_part - norms).max()),
        split=float(np.abs(aligned - label_part - teacher_part).max()),
        selects_brier=bool(brier[pick] - brier.min() < 1e-12),
    )


@dataclass(frozen=True)
class Attenuation:
    """Predicted and measured shrinking of label information at one corruption rate.

    Slopes run through the origin, corrupted on clean, over candidates and repetitions; both should equal
    `predicted`.
    """

    rate: float
    predicted: float  # 1 - Kη/(K-1)
    label_part: float
    accuracy: float  # centred over candidates

    @property
    def error(self) -> float:
        return max(abs(self.label_part - self.predicted), abs(self.accuracy - self.predicted))


def attenuation_factor(n_classes: int, rate: float) -> float:
    """Return 1 - Kη/(K-1), the factor that symmetric label errors put on any criterion linear in the
    label.

    >>> attenuation_factor(10, 0.9)  # labels drawn at random say nothing
    0.0
    """
    return 1 - n_classes * rate / (n_classes - 1)


def measure_attenuation(
    teacher: Floats, candidates: Floats, labels: Ints, rate: float, *, repetitions: int = 10
) -> Attenuation:
    """Corrupt labels (n,) with the protocol's seeds and regress corrupted on clean statistics through the
    origin.
    """
    n_classes = teacher.shape[1]
    rows = np.arange(len(labels))
    delta = np.asarray(candidates, dtype=np.float64) - np.asarray(teacher, dtype=np.float64)
    predicted_class = np.argmax(candidates, axis=2)

    def statistics(observed: Ints) -> tuple[Floats, Floats]:
        accuracy = np.mean(predicted_class == observed, axis=1)
        return np.mean(delta[:, rows, observed], axis=1), accuracy - accuracy.mean()

    clean_part, clean_accuracy = statistics(labels)
    noisy = [
        statistics(corrupt_labels(labels, n_classes, rate, repetition)) for repetition in range(repetitions)
    ]
    return Attenuation(
        rate=rate,
        predicted=attenuation_factor(n_classes, rate),
        label_part=_slope(clean_part, np.array([part for part, _ in noisy])),
        accuracy=_slope(clean_accuracy, np.array([accuracy for _, accuracy in noisy])),
    )


def _slope(clean: Floats, noisy: Floats) -> float:
    scale = float(np.sum(clean**2)) * len(noisy)
    return float(np.sum(noisy * clean)) / scale if scale else float("nan")
