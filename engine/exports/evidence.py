"""Why this candidate: the one record that a certificate keeps of a choice, whoever wrote it.

Knows choices and predictions, not how either was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.exports.certificate import plain
from engine.files.hashing import sha256_of
from engine.types import Choice, Predictions

SHIPPED_IMAGES = 16  # of the user's, that a file is compared on: enough to show a difference, seconds to run


@dataclass(frozen=True, eq=False)
class Grounds:
    """What a candidate is exported on: predictions, where they are kept, a rule's choice, and who settled it."""

    predictions: Predictions
    choice: Choice | None = None
    path: Path | None = None  # of the predictions file
    budget: float | None = None  # memory that was allowed, relative to float
    settled_by: str = ""  # who took the candidate: a rule, or a person


def evidence_record(grounds: Grounds, exported: str) -> dict[str, Any]:
    """Return the evidence for exporting the candidate `exported`, ready for JSON."""
    path, choice = grounds.path, grounds.choice
    record: dict[str, Any] = {
        "predictions": None if path is None else path.name,
        "predictions_sha256": None if path is None or not path.is_file() else sha256_of(path),
        "teacher_sha256": grounds.predictions.teacher_sha256,
        "exported": exported,
        "settled_by": grounds.settled_by,
        "budget": grounds.budget,
    }
    if choice is None:
        return record
    record |= choice_evidence(choice, grounds.predictions)
    if choice.name != exported:
        record["warnings"] = [
            *record["warnings"],
            f"{choice.method} picks {choice.name}; {exported} was exported on request.",
        ]
    return record


def choice_evidence(choice: Choice, predictions: Predictions) -> dict[str, Any]:
    """Return the rule, what it saw, its scores of all candidates, the runner-up and its warnings, ready for
    JSON.
    """
    runner_up = None if choice.runner_up is None else predictions.names[choice.runner_up]
    record: dict[str, Any] = plain(
        {
            "method": choice.method,
            "picked": choice.name,
            "n_labels": choice.n_labels,
            "n_images": predictions.n_images,
            "coefficient": choice.coefficient,
            "score": float(choice.scores[choice.index]),
            "better": choice.better,
            "ties": choice.ties,
            "runner_up": runner_up,
            "margin": choice.margin,
            "warnings": list(choice.warnings),
            "details": choice.details,
            "coefficient_grid": choice.grid,
            "cross_validation_losses": choice.cv_losses,
            "scores": dict(zip(predictions.names, choice.scores, strict=True)),
        }
    )
    return record
