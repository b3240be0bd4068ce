"""Predictions that belong to the teacher, and a choice as the record a certificate keeps."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from engine.decide.briefing import Grounds
from engine.decide.limits import Limits
from engine.exports.evidence import brief_in, choice_evidence, evidence_record
from engine.family.cost import costs
from engine.family.recipes import standard_family
from engine.types import Choice, LabeledSample, Predictions
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
    bare = evidence_record(
        Grounds(predictions=PREDICTIONS, settled_by="own", limits=Limits(memory=0.2)), "b2-tensor-q99"
    )
    assert (bare["exported"], bare["settled_by"], bare["limits"]["memory"]) == ("b2-tensor-q99", "own", 0.2)
    assert "method" not in bare
    assert bare["predictions_sha256"] is None


def test_another_candidate_than_the_pick_brings_its_own_evidence() -> None:
    first, second = PREDICTIONS.names
    predictions = replace(PREDICTIONS, labels=np.array([0, 1, 1]))
    probs = np.full((2, 3, 4), 0.1)
    probs[0, :, 1] = 0.7  # right on two of three
    probs[1, [0, 1, 2], [0, 1, 1]] = 0.7  # right on all
    choice = Choice(
        method="auto",
        index=1,
        name=second,
        scores=np.array([0.9, 0.5]),
        ties=1,
        runner_up=0,
        margin=0.4,
        n_labels=3,
        details={"probability_close": [0.25, 0.9375]},
    )
    grounds = Grounds(
        predictions=replace(predictions, candidates=probs),
        choice=choice,
        sample=LabeledSample(np.arange(3), predictions.labels),
    )
    record = json.loads(json.dumps(evidence_record(grounds, first)))
    assert (
        record["overrides"] == f"{first} overrides the recommendation {second} (p = 0.94); its own p is 0.25"
    )
    assert (record["exported"], record["picked"], record["score"], record["rank"]) == (first, second, 0.9, 2)
    assert (record["runner_up"], record["margin"], record["ties"]) == (None, None, None)
    assert record["brief"]["pick"]["accuracy"]["value"] == 2 / 3
    assert record["brief"]["recommended"]["accuracy"]["value"] == 1.0
    own = json.loads(json.dumps(evidence_record(grounds, second)))
    assert "overrides" not in own
    assert (own["score"], own["rank"], own["runner_up"]) == (0.5, 1, first)


def test_a_candidate_that_the_predictions_do_not_hold_is_said() -> None:
    choice = Choice(
        method="auto", index=0, name=PREDICTIONS.names[0], scores=np.zeros(2), ties=2, runner_up=1, margin=0.0
    )
    record = evidence_record(Grounds(predictions=PREDICTIONS, choice=choice), "b8-channel-q100")
    assert "do not hold" in record["warnings"][-1]
    assert brief_in(record) is None
