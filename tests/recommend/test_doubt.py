"""The doubt around a choice: hand-made draws, limits, and coverage on families whose model is true."""

from dataclasses import replace

import numpy as np
import pytest

from engine.recommend.calibrated import calibrate
from engine.recommend.doubt import SPREAD, cheapest_within, doubt_of, doubt_record, draw_losses
from engine.recommend.hypotheses import calibrated_pool
from engine.rules.statistics import pool_statistics
from engine.types import LabeledSample
from tests.families import softmax

DRAWS = np.array([[1.0, 1.02, 1.5], [1.0, 0.9, 1.5], [1.0, 1.2, 0.8], [1.0, 1.04, 1.5]])


def test_hand_made_draws() -> None:
    doubt = doubt_of(DRAWS, 0)
    np.testing.assert_allclose(doubt.best, [0.5, 0.25, 0.25])
    np.testing.assert_allclose(doubt.close, [0.5, 0.75, 0.25])
    np.testing.assert_allclose(doubt.regret, [0.075, (0.02 + 0 + 0.4 + 0.04) / 4, (0.5 + 0.6 + 0 + 0.5) / 4])
    assert doubt.same == (0, 1, 2)


def test_candidates_over_budget_take_no_part() -> None:
    doubt = doubt_of(DRAWS, 0, admissible=np.array([True, False, True]))
    np.testing.assert_allclose(doubt.best, [0.75, np.nan, 0.25])
    assert doubt.same == (0, 2)
    assert cheapest_within(doubt, 0, np.array([0.5, 0.1, 0.9])) == 0


def test_cheapest_within_is_as_sure_as_the_pick() -> None:
    doubt = doubt_of(DRAWS, 0)
    assert cheapest_within(doubt, 0, np.array([0.5, 0.4, 0.1])) == 1
    assert cheapest_within(doubt, 0, None) is None
    sure = doubt_of(np.tile([1.0, 1.01, 1.3], (10, 1)), 0)
    assert cheapest_within(sure, 0, np.array([0.5, 0.4, 0.1])) == 1
    assert doubt_record(sure, 0, None)["cheapest_within"] is None


def family(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A teacher of unknown temperature and candidates of other temperatures; labels follow the recalibrated
    teacher.
    """
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(400, 6))
    truth = softmax(logits / np.exp(rng.normal(0.2, 0.5)))
    candidates = softmax(logits * np.linspace(0.2, 2, 9)[:, None, None] + 0.5 * rng.normal(size=(9, 400, 6)))
    labels = np.array([rng.choice(6, p=p) for p in truth])
    return softmax(logits), candidates, labels, truth


@pytest.mark.parametrize("n", [0, 10, 40])
def test_stated_probabilities_hold_where_the_model_is_true(n: int) -> None:
    stated, held = [], []
    for seed in range(40):
        teacher, candidates, labels, truth = family(seed)
        pool = calibrated_pool(teacher, pool_statistics(teacher, candidates))
        verdict = calibrate(pool, LabeledSample(np.arange(n), labels[:n]))
        doubt = doubt_of(draw_losses(verdict), int(np.argmin(verdict.scores)))
        real = -np.sum(truth * np.log(candidates), axis=2).mean(axis=1)
        sure = doubt.close >= 0.9
        stated += list(doubt.close[sure])
        held += list(real[sure] <= real.min() + 0.05)
    assert not stated or np.mean(held) >= 0.85


def test_draws_are_seeded_and_doubt_shrinks_with_labels() -> None:
    teacher, candidates, labels, _ = family(1)
    pool = calibrated_pool(teacher, pool_statistics(teacher, candidates))
    regrets = []
    for n in (0, 300):
        verdict = calibrate(pool, LabeledSample(np.arange(n), labels[:n]))
        draws = draw_losses(verdict, seed=5)
        np.testing.assert_array_equal(draws, draw_losses(verdict, seed=5))
        pick = int(np.argmin(verdict.scores))
        regrets.append(doubt_of(draws, pick).regret[pick])
    assert regrets[1] < regrets[0] / 2


def test_a_small_pool_is_itself_in_doubt() -> None:
    """A pool of N images adds the standard error of a mean of N, widened as everything else is."""
    teacher, candidates, labels, _ = family(1)
    pool = calibrated_pool(teacher, pool_statistics(teacher, candidates))
    verdict = calibrate(pool, LabeledSample(np.arange(100), labels[:100]))
    small, endless = (draw_losses(replace(verdict, n_images=n)) for n in (225, 10**15))
    expected = SPREAD * verdict.usual.std(axis=1) / 15
    np.testing.assert_allclose((small - endless).std(axis=0), expected, rtol=0.15)
