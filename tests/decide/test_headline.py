"""What stands above a recommendation: "Deploy" only where the evidence carries it, on families where it does
not too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from engine.decide.choose import statistics_of
from engine.decide.decision import Decision, decide
from engine.decide.headline import BEST_SO_FAR, DEPLOY, headline, teacher_doubt
from engine.diagnose.comparison import Interval, Quality, labeled_rows, quality, share_interval
from engine.rules.sampling import draw_sample
from engine.types import LabeledSample, Predictions
from tests.synthetic_family import synthetic_predictions


def measured(predictions: Predictions, sample: LabeledSample) -> tuple[Decision, Quality]:
    decision = decide(predictions, statistics_of(predictions), sample, skip=("cot",))
    probs = predictions.candidates[decision.recommended.index]
    return decision, quality(labeled_rows(probs, sample), sample.labels)


def with_close(decision: Decision, value: float) -> Decision:
    table = decision.candidates.copy()
    table["probability_close"] = value
    details: dict[str, Any] = {**decision.recommended.details, "reservation": None}
    return replace(decision, candidates=table, recommended=replace(decision.recommended, details=details))


@pytest.fixture(scope="module")
def good() -> tuple[Decision, Quality]:
    predictions = synthetic_predictions()
    return measured(predictions, draw_sample(predictions.labels, 50, n_classes=predictions.n_classes))


def test_a_good_pick_is_to_be_deployed(good: tuple[Decision, Quality]) -> None:
    decision, pick = good
    said = headline(with_close(decision, 0.8), pick, 10)
    assert (said.verb, said.reasons, said.is_bound) == (DEPLOY, (), False)


def test_below_an_even_chance_it_is_only_the_best_so_far(good: tuple[Decision, Quality]) -> None:
    decision, pick = good
    said = headline(with_close(decision, 0.49), pick, 10)
    assert said.verb == BEST_SO_FAR
    assert "only 49 %" in said.reasons[0]


def test_a_pick_that_could_be_guessing_is_not_to_be_deployed() -> None:
    predictions = synthetic_predictions()
    rng = np.random.Generator(np.random.PCG64(3))
    shuffled = replace(predictions, labels=rng.permutation(predictions.labels))
    decision, pick = measured(shuffled, draw_sample(shuffled.labels, 50, n_classes=shuffled.n_classes))
    assert headline(decision, pick, 10).verb == BEST_SO_FAR


def test_accuracy_that_could_be_chance_is_reason_enough(good: tuple[Decision, Quality]) -> None:
    decision, pick = good
    low = replace(pick, accuracy=Interval(value=0.2, low=0.1, high=0.4))
    said = headline(with_close(decision, 0.8), low, 10)
    assert said.verb == BEST_SO_FAR
    assert said.reasons == (
        "It is right on 20 % of your labels, which could still be guessing (10 %). Label more images before"
        " you deploy it.",
    )


def test_a_budget_that_keeps_candidates_out_is_said(good: tuple[Decision, Quality]) -> None:
    decision, pick = good
    table = decision.candidates.assign(admissible=[True, *[False] * (len(decision.candidates) - 1)])
    assert headline(replace(with_close(decision, 0.9), candidates=table), pick, 10).is_bound


def test_without_labels_only_the_probability_speaks(good: tuple[Decision, Quality]) -> None:
    assert headline(with_close(good[0], 0.8), None, 10).verb == DEPLOY


def test_the_cheapest_as_good_is_the_cheapest_of_those_that_are_as_good(
    good: tuple[Decision, Quality],
) -> None:
    decision = good[0]
    at, n = decision.recommended.index, len(decision.candidates)
    close = np.full(n, 0.2)
    close[at] = 0.7
    others = [m for m in range(n) if m != at][:3]
    close[others] = [0.7, 0.8, 0.69]
    cost = np.full(n, 0.9)
    cost[at], cost[others[0]], cost[others[1]], cost[others[2]] = 0.5, 0.4, 0.3, 0.1
    changed = replace(decision, candidates=decision.candidates.assign(probability_close=close, cost=cost))
    assert changed.same == tuple(others[:2])
    assert changed.cheapest == others[1]
    dear = replace(changed, candidates=changed.candidates.assign(cost=1 - cost))
    assert dear.cheapest is None


@pytest.mark.parametrize(
    ("hits", "n", "words"),
    [(0, 40, "worse than guessing"), (4, 40, "could be guessing"), (30, 40, ""), (0, 9, "")],
)
def test_a_teacher_no_better_than_guessing_is_named(hits: int, n: int, words: str) -> None:
    nothing = Interval(value=0.0, low=0.0, high=0.0)
    said = teacher_doubt(Quality(accuracy=share_interval(hits, n), loss=nothing, ece=0.0), n, 10)
    assert (words in said) if words else said == ""
    assert teacher_doubt(None, 0, 10) == ""
