"""The decision in brief: the numbers are those of the candidate that is taken, whoever was recommended."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from engine.decide.brief import (
    LabelOrigin,
    compared_words,
    label_words,
    preprocessing_words,
    table_of,
)
from engine.decide.briefing import Grounds, brief_of
from engine.decide.choose import choose, statistics_of
from engine.decide.limits import Limits
from engine.rules.sampling import draw_sample
from engine.types import Choice, LabeledSample, Predictions, Preprocessing
from tests.synthetic_family import synthetic_predictions

PREDICTIONS: Predictions = synthetic_predictions()
SAMPLE: LabeledSample = draw_sample(PREDICTIONS.labels, 40, n_classes=PREDICTIONS.n_classes)


@pytest.fixture(scope="module")
def choice() -> Choice:
    return choose("auto", PREDICTIONS, SAMPLE)


def grounds(choice: Choice | None, **more: object) -> Grounds:
    return Grounds(predictions=PREDICTIONS, choice=choice, sample=SAMPLE, **more)  # type: ignore[arg-type]


def other_than(choice: Choice) -> int:
    """A candidate that answers differently from the pick, so that its numbers cannot be mistaken."""
    right = [hits(index) for index in range(PREDICTIONS.n_candidates)]
    return next(index for index, n in enumerate(right) if n != right[choice.index])


def hits(index: int) -> int:
    return sum(
        int(PREDICTIONS.candidates[index, row].argmax() == label)
        for row, label in zip(SAMPLE.rows, SAMPLE.labels, strict=True)
    )


def wilson(hit: int, n: int) -> tuple[float, float]:
    """The textbook formula."""
    z, p = 1.959963984540054, hit / n
    centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return (centre - spread) / (1 + z * z / n), (centre + spread) / (1 + z * z / n)


def test_an_overriding_candidate_brings_its_own_numbers(choice: Choice) -> None:
    index = other_than(choice)
    brief = brief_of(grounds(choice), PREDICTIONS.names[index])
    assert brief.pick.name == PREDICTIONS.names[index]
    assert brief.pick.accuracy is not None
    assert brief.pick.accuracy.value == hits(index) / 40
    assert (brief.pick.accuracy.low, brief.pick.accuracy.high) == pytest.approx(wilson(hits(index), 40))
    assert brief.pick.loss is not None
    losses = [
        -math.log(max(PREDICTIONS.candidates[index, r, k], 1e-8))
        for r, k in zip(SAMPLE.rows, SAMPLE.labels, strict=True)
    ]
    assert brief.pick.loss.value == pytest.approx(sum(losses) / 40)
    assert brief.pick.probability == choice.details["probability_close"][index]
    assert brief.recommended is not None
    assert brief.recommended.name == choice.name
    assert not brief.is_firm
    told = choice.details["probability_close"][choice.index]
    assert f"overrides the recommendation {choice.name} (p = {told:.2f})" in brief.verdict


def test_the_recommended_candidate_overrides_nothing(choice: Choice) -> None:
    brief = brief_of(grounds(choice), choice.name)
    assert brief.recommended is None
    assert brief.verdict.startswith(("Deploy ", "Best so far: "))
    assert brief.is_firm == brief.verdict.startswith("Deploy ")
    assert brief.teacher.accuracy is not None
    answers = PREDICTIONS.teacher[SAMPLE.rows].argmax(axis=1)
    assert brief.teacher.accuracy.value == float(np.mean(answers == SAMPLE.labels))
    assert len(brief.dots) == PREDICTIONS.n_candidates
    assert brief.dots[choice.index].height == hits(choice.index) / 40
    table = table_of(brief)
    assert table.heads == ("", "teacher: the float teacher", f"taken: {choice.name}")
    assert table.rows[0][0] == "right on the labels"
    assert f"{100 * hits(choice.index) / 40:.1f} %" in table.rows[0][2]


def test_without_labels_or_rule_nothing_is_claimed() -> None:
    bare = brief_of(Grounds(predictions=PREDICTIONS), PREDICTIONS.names[3])
    assert bare.verdict.endswith("named directly: no rule recommends it.")
    assert (bare.pick.accuracy, bare.pick.loss, bare.pick.probability, bare.is_firm) == (None,) * 3 + (False,)
    assert bare.dots == ()
    assert "no labels" in label_words(bare)
    free = brief_of(
        Grounds(predictions=PREDICTIONS, choice=choose("distortion", PREDICTIONS)), PREDICTIONS.names[3]
    )
    assert free.pick.probability is None


def test_says_what_was_compared_and_whose_labels(choice: Choice) -> None:
    origin = LabelOrigin(sources={"typed": 30, "csv": 10}, people=("Ann",), disputed=2)
    brief = brief_of(
        grounds(choice, origin=origin, limits=Limits(memory=0.22, latency=0.8), problems=("Few images.",)),
        choice.name,
    )
    assert "72 candidates on" in compared_words(brief)
    assert "72 stay within 22 % of the float weights and 0.8 of the teacher's time" in compared_words(brief)
    words = label_words(brief)
    assert "40 labels" in words
    assert "30 typed in the app, 10 from a CSV file" in words
    assert "Given by Ann." in words
    assert "Few images." in brief.concerns
    assert "People gave different labels to 2 images." in brief.concerns


def test_preprocessing_in_words() -> None:
    words = preprocessing_words(
        Preprocessing(224, 192, resize=232, order="BGR", mean=(1.0, 2.0, 3.0), std=(4.0, 5.0, 6.0))
    )
    assert "shorter side has 232 pixels, then cropped at the centre to 224 x 192" in words
    assert "3 channels (BGR)" in words
    assert "less (1, 2, 3), divided by (4, 5, 6)" in words


def test_the_gate_is_asked_about_the_candidate_that_is_taken(choice: Choice) -> None:
    index = other_than(choice)
    pool = statistics_of(PREDICTIONS)
    brief = brief_of(grounds(choice, pool=pool), PREDICTIONS.names[index])
    assert (
        f"{PREDICTIONS.names[index]} is more than 0.02 of accuracy worse than the teacher" in brief.sign_off
    )
    assert any(concern.startswith("It is less accurate than the teacher, by ") for concern in brief.concerns)
    assert "40 labels" in brief.sign_off
    assert brief_of(Grounds(predictions=PREDICTIONS, pool=pool), choice.name).sign_off == ""


def test_what_nobody_looked_at_is_a_concern() -> None:
    bare = brief_of(Grounds(predictions=PREDICTIONS), PREDICTIONS.names[0])
    assert bare.concerns == ("No labels were looked at, so nobody knows how often it is right.",)
    peers = brief_of(Grounds(predictions=replace(PREDICTIONS, reference="consensus")), PREDICTIONS.names[0])
    assert "There is no float teacher: the consensus of the candidates stands in for it." in peers.concerns
