"""What the test part says of each candidate: loss, accuracy and calibration, and the checks that admit a
family to a study.

Sees one family's arrays. Uses test labels, hence serves evaluation only and never a decision.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.diagnose.health import COLLAPSE_FACTOR
from engine.types import Floats, Predictions, UserError


@dataclass(frozen=True, eq=False)
class Truth:
    """Test loss (floored cross-entropy) and accuracy of every candidate, both (M,), and of the teacher."""

    loss: Floats
    accuracy: Floats
    teacher_loss: float
    teacher_accuracy: float


def measure_truth(predictions: Predictions, *, floor: float) -> Truth:
    """Evaluate teacher and candidates on the test part. Raises UserError if the file has none."""
    teacher, candidates, labels = (
        predictions.teacher_test,
        predictions.candidates_test,
        predictions.labels_test,
    )
    if teacher is None or candidates is None or labels is None:
        raise UserError(
            "there is no test part; a study needs teacher_test, candidates_test and labels_test. Add them to"
            " the file."
        )
    rows = np.arange(len(labels))
    loss, accuracy = np.empty(len(candidates)), np.empty(len(candidates))
    for m in range(len(candidates)):
        probs = candidates[m]
        loss[m] = np.mean(-np.log(np.maximum(np.asarray(probs[rows, labels], dtype=np.float64), floor)))
        accuracy[m] = np.mean(np.argmax(probs, axis=1) == labels)
    teacher_loss = np.mean(-np.log(np.maximum(np.asarray(teacher[rows, labels], dtype=np.float64), floor)))
    return Truth(loss, accuracy, float(teacher_loss), float(np.mean(np.argmax(teacher, axis=1) == labels)))


def check_cohort(predictions: Predictions, truth: Truth) -> None:
    """Refuse a family that cannot show anything: candidates missing, all alike, or all at chance. Raises
    UserError.
    """
    if predictions.missing:
        raise UserError(
            f"{len(predictions.missing)} candidates were not run ({predictions.missing[0]}, …). Finish the"
            " family first."
        )
    if predictions.n_candidates < 2:
        raise UserError(
            "the family has a single candidate, so there is nothing to choose. Give at least two."
        )
    first = predictions.candidates[0]
    if all(np.array_equal(first, other) for other in predictions.candidates[1:]):
        raise UserError(
            "all candidates predict exactly the same, so every rule is right. Check how the predictions were"
            " made."
        )
    if truth.accuracy.max() <= COLLAPSE_FACTOR / predictions.n_classes:
        raise UserError(
            f"every candidate is at chance (best accuracy {truth.accuracy.max():.3f}). Check labels_test and"
            " the class order."
        )
