"""Why this candidate: the one record that a certificate keeps of a choice, whoever wrote it.

Knows choices and predictions, not how either was made. What it says is about the candidate that is exported;
the rule's own pick is named where it is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.decide.brief import Brief, overrides_words
from engine.decide.briefing import Grounds, brief_of
from engine.exports.certificate import plain
from engine.exports.certificate_fields import build
from engine.files.hashing import sha256_of
from engine.types import Choice, Predictions

_BRIEF = "brief"


def evidence_record(grounds: Grounds, exported: str) -> dict[str, Any]:
    """Return the evidence for exporting the candidate `exported`, ready for JSON."""
    path, choice = grounds.path, grounds.choice
    record: dict[str, Any] = {
        "predictions": None if path is None else path.name,
        "predictions_sha256": None if path is None or not path.is_file() else sha256_of(path),
        "teacher_sha256": grounds.predictions.teacher_sha256,
        "exported": exported,
        "settled_by": grounds.settled_by,
        "limits": asdict(grounds.limits),
    }
    is_known = exported in grounds.predictions.names
    if is_known:
        brief = brief_of(grounds, exported)
        record[_BRIEF] = plain(asdict(brief))
        if brief.recommended is not None:
            record["overrides"] = overrides_words(brief.pick, brief.recommended)
    if choice is None:
        return record
    record |= choice_evidence(choice, grounds.predictions, exported if is_known else None)
    if not is_known:
        record["warnings"] = [
            *record["warnings"],
            (
                f"{choice.method} picks {choice.name}; {exported}, which these predictions do not hold, was"
                " exported."
            ),
        ]
    return record


def brief_in(evidence: Mapping[str, Any]) -> Brief | None:
    """Return the decision that a certificate's evidence tells, or None where it tells none.

    Raises UserError, naming the field, if it was damaged.
    """
    return build(Brief, evidence[_BRIEF], "evidence.brief") if evidence.get(_BRIEF) is not None else None


def choice_evidence(choice: Choice, predictions: Predictions, exported: str | None = None) -> dict[str, Any]:
    """Return the rule, what it saw, its scores of all candidates and its warnings, ready for JSON.

    `score` and `rank` are those of the candidate that is exported (the pick, if none is named); ties, margin
    and runner-up belong to the rule's pick and are told only where that is the one.
    """
    index = choice.index if exported is None else predictions.names.index(exported)
    is_pick = index == choice.index
    runner_up = None if choice.runner_up is None or not is_pick else predictions.names[choice.runner_up]
    record: dict[str, Any] = plain(
        {
            "method": choice.method,
            "picked": choice.name,
            "n_labels": choice.n_labels,
            "n_images": predictions.n_images,
            "coefficient": choice.coefficient,
            "score": float(choice.scores[index]),
            "rank": _rank(choice, index),
            "better": choice.better,
            "ties": choice.ties if is_pick else None,
            "runner_up": runner_up,
            "margin": choice.margin if is_pick else None,
            "warnings": list(choice.warnings),
            "details": choice.details,
            "coefficient_grid": choice.grid,
            "cross_validation_losses": choice.cv_losses,
            "scores": dict(zip(predictions.names, choice.scores, strict=True)),
        }
    )
    return record


def _rank(choice: Choice, index: int) -> int | None:
    """Return the candidate's place by score, 1 for the best; None if it was not admitted."""
    own, scores = choice.scores[index], choice.scores
    if not np.isfinite(own):
        return None
    return 1 + int(np.sum(scores < own if choice.better == "lower" else scores > own))
