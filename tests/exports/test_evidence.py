"""Predictions that belong to the teacher, and a choice as the record a certificate keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from engine.exports.evidence import check_predictions, choice_evidence
from engine.family.cost import costs
from engine.family.recipes import standard_family
from engine.types import Choice, Predictions, UserError
from tests.tiny_teacher import tiny_teacher

TEACHER = tiny_teacher()
FAMILY = standard_family()[:2]
PREDICTIONS = Predictions(
    teacher=np.full((3, 4), 0.25),
    candidates=np.full((2, 3, 4), 0.25),
    labels=np.full(3, -1),
    names=tuple(recipe.slug for recipe in FAMILY),
    calibration=1,
    cost=costs(TEACHER, FAMILY),
)


def test_predictions_of_this_teacher_pass() -> None:
    check_predictions(PREDICTIONS, TEACHER)
    check_predictions(replace(PREDICTIONS, cost=None), TEACHER)
    rounded = np.round(costs(TEACHER, FAMILY), 3)  # as a file written by hand may have them
    check_predictions(replace(PREDICTIONS, cost=rounded), TEACHER)
    check_predictions(replace(PREDICTIONS, names=("mine", "yours"), cost=np.array([0.5, 0.6])), TEACHER)


def test_another_models_predictions_are_refused() -> None:
    with pytest.raises(UserError, match=r"have 4 classes and .* has 5"):
        check_predictions(PREDICTIONS, tiny_teacher(n_classes=5))
    with pytest.raises(UserError, match="of another model"):
        check_predictions(PREDICTIONS, tiny_teacher(width=16))


def test_the_record_is_json_and_names_the_candidates() -> None:
    choice = Choice(
        method="val-ce",
        index=1,
        name=PREDICTIONS.names[1],
        scores=np.array([np.nan, 0.5]),
        ties=1,
        runner_up=0,
        margin=0.25,
        n_labels=2,
        warnings=("few",),
    )
    record = json.loads(json.dumps(choice_evidence(choice, PREDICTIONS)))
    assert record["picked"] == PREDICTIONS.names[1]
    assert record["runner_up"] == PREDICTIONS.names[0]
    assert (record["score"], record["margin"], record["n_images"]) == (0.5, 0.25, 3)
    assert record["scores"][PREDICTIONS.names[1]] == 0.5
    assert record["warnings"] == ["few"]
    alone = choice_evidence(replace(choice, runner_up=None), PREDICTIONS)
    assert alone["runner_up"] is None
