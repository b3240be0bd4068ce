"""Why this candidate: a choice as the record that a certificate keeps. Knows choices and predictions, not how either was made."""

from __future__ import annotations

from typing import Any

from engine.export.certificate import plain
from engine.types import Choice, Predictions


def choice_evidence(choice: Choice, predictions: Predictions) -> dict[str, Any]:
    """Return the rule, what it saw, its scores of all candidates, the runner-up and its warnings, ready for JSON."""
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
