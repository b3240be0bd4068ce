"""Predictions that belong to the teacher, and a choice as the record a certificate keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from engine.exports.evidence import Grounds, choice_evidence, evidence_record
from engine.family.cost import costs
from engine.family.recipes import standard_family
from engine.types import Choice, Predictions
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


def test_the_record_says_what_was_exported_and_who_settled_it() -> None:
    bare = evidence_record(Grounds(predictions=PREDICTIONS, settled_by="own", budget=0.2), "b2-tensor-q99")
    assert (bare["exported"], bare["settled_by"], bare["budget"]) == ("b2-tensor-q99", "own", 0.2)
    assert "method" not in bare
    assert bare["predictions_sha256"] is None
