"""`calibrated` and `auto` through the one entry that app, study and command line use."""

import json

import numpy as np
import pytest

from engine.decide.choose import METHODS, choose, statistics_of
from engine.predictions.file import make_predictions
from engine.recommend.auto import CALIBRATED_RULES
from engine.recommend.calibrated import calibrate
from engine.recommend.hypotheses import calibrated_pool
from engine.target.labels import sample_from_array
from engine.types import LabeledSample, Predictions
from tests.families import random_family, softmax


@pytest.fixture(scope="module")
def predictions() -> Predictions:
    return random_family(2, n_images=120)


@pytest.mark.parametrize("method", sorted(CALIBRATED_RULES))
@pytest.mark.parametrize("n", [0, 1, 20])
def test_choice_is_complete_and_json_ready(predictions: Predictions, method: str, n: int) -> None:
    sample = sample_from_array(predictions.labels)
    choice = choose(method, predictions, LabeledSample(sample.rows[:n], sample.labels[:n]))
    assert method in METHODS
    # The parts that are shown must make up the score, and the pick must be its lowest.
    assert choice.anchor is not None
    assert choice.supervised is not None
    total = choice.anchor + choice.coefficient * choice.supervised
    np.testing.assert_allclose(total, choice.scores)
    assert choice.index == np.argmin(total)
    assert choice.n_labels == n
    details = json.loads(json.dumps(dict(choice.details)))
    assert sum(details["temperature_posterior"]) == pytest.approx(1)
    assert sum(details["error_rate_posterior"]) == pytest.approx(1)
    assert sum(details["probability_best"]) == pytest.approx(1)
    assert len(details["reasons"]) == 3
    assert choice.index in details["indistinguishable"]


def test_no_sample_equals_an_empty_one(predictions: Predictions) -> None:
    empty = LabeledSample(np.empty(0, int), np.empty(0, int))
    np.testing.assert_array_equal(
        choose("auto", predictions).scores, choose("auto", predictions, empty).scores
    )


def test_budget_restricts_the_pick_and_the_chances(predictions: Predictions) -> None:
    mask = np.arange(predictions.n_candidates) < 3
    choice = choose("auto", predictions, sample_from_array(predictions.labels), admissible=mask)
    assert choice.index < 3
    assert np.isnan(choice.scores[3:]).all()
    assert np.nansum(choice.details["probability_best"]) == pytest.approx(1)
    assert choice.details["cheapest_within"] < 3


def test_the_prepared_pool_is_kept_with_the_statistics(predictions: Predictions) -> None:
    pool = statistics_of(predictions)
    first = choose("calibrated", predictions, pool=pool)
    kept = dict(pool.memo)
    assert len(kept) == 1
    choose("auto", predictions, pool=pool)
    assert pool.memo == kept
    other = choose("calibrated", predictions, pool=pool, floor=1e-3)
    assert len(pool.memo) == 2
    assert np.any(other.scores != first.scores)
    fresh = calibrate(
        calibrated_pool(predictions.teacher, statistics_of(predictions)),
        LabeledSample(np.empty(0, int), np.empty(0, int)),
    )
    np.testing.assert_allclose(first.scores, fresh.scores)


@pytest.mark.parametrize(
    ("sharpness", "tone"), [(4.0, "overconfident"), (1.0, "about as confident"), (0.3, "underconfident")]
)
def test_the_first_reason_tells_a_teacher_that_is_too_sure(sharpness: float, tone: str) -> None:
    """Confidence and expected accuracy stand beside each other, and the latter is near the truth."""
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(400, 5))
    labels = np.array([rng.choice(5, p=p) for p in softmax(logits)])
    teacher = softmax(sharpness * logits)
    family = make_predictions(teacher, softmax(np.stack([sharpness * logits, logits])), labels=labels)
    choice = choose("auto", family, LabeledSample(np.arange(150), labels[:150]))
    assert tone in choice.details["reasons"][0]
    assert choice.details["teacher_confidence"] == pytest.approx(teacher.max(axis=1).mean(), abs=1e-6)
    assert choice.details["teacher_accuracy"] == pytest.approx(
        np.mean(teacher.argmax(axis=1) == labels), abs=0.08
    )
