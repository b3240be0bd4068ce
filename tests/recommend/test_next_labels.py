"""label-next: which rows it names, that a biased draw is corrected, and how the number of labels to halve the
doubt behaves.
"""

import numpy as np
import pytest

from engine.recommend.calibrated import calibrate
from engine.recommend.hypotheses import CalibratedPool, calibrated_pool, contested
from engine.recommend.next_labels import EXPLORE, label_next, labels_to_halve
from engine.rules.statistics import pool_statistics
from engine.types import LabeledSample
from tests.families import softmax
from tests.rules.test_streaming import Counted

EMPTY = LabeledSample(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


@pytest.fixture(scope="module")
def contest() -> tuple[CalibratedPool, np.ndarray]:
    """Two candidates that agree on the first half of the pool and differ on the second."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(200, 4))
    other = logits.copy()
    other[100:] = 3 * rng.normal(size=(100, 4))
    candidates = softmax(np.stack([logits, other]))
    labels = np.array([rng.choice(4, p=p) for p in softmax(logits)])
    teacher = softmax(1.5 * logits)
    return calibrated_pool(teacher, pool_statistics(teacher, candidates)), labels


def test_contested_is_the_spread_of_the_losses_contrast() -> None:
    """Against loops: what each possible label would say about each candidate relative to the contenders'
    average.
    """
    rng = np.random.default_rng(1)
    belief, losses, chances = (
        softmax(rng.normal(size=(5, 4))),
        rng.random((3, 5, 4)),
        np.array([0.5, 1.0, 2.0]),
    )
    found, share = contested(belief, losses, chances), chances / chances.sum()
    for i in range(5):
        total = 0.0
        for m in range(3):
            terms = [losses[m, i, y] - sum(share[j] * losses[j, i, y] for j in range(3)) for y in range(4)]
            mean = sum(belief[i, y] * terms[y] for y in range(4))
            total += share[m] * sum(belief[i, y] * (terms[y] - mean) ** 2 for y in range(4))
        assert found[i] == pytest.approx(np.sqrt(total))


def test_of_a_large_family_only_some_rows_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.recommend.hypotheses.BIG", 1)
    monkeypatch.setattr("engine.recommend.next_labels._CONSIDERED", 50 * 4)
    logits = np.random.default_rng(0).normal(size=(3, 400, 4))
    counted = Counted(softmax(logits[1:]))
    pool = calibrated_pool(softmax(logits[0]), pool_statistics(softmax(logits[0]), counted))
    verdict, labeled = calibrate(pool, EMPTY), np.arange(100)
    counted.read.clear()
    plan = label_next(pool, verdict, np.array([0.5, 0.5]), labeled, 20)
    assert len(np.unique(plan.rows)) == 20
    assert plan.rows.min() >= 100
    assert sum(counted.read) == 2 * 50 * 4 * 2  # once for the references, once for the losses


def test_rows_are_new_distinct_and_mostly_contested(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    pool, _ = contest
    verdict = calibrate(pool, EMPTY)
    labeled = np.arange(100, 120)
    plan = label_next(pool, verdict, np.array([0.5, 0.5]), labeled, 40)
    assert len(np.unique(plan.rows)) == 40
    assert not np.isin(plan.rows, labeled).any()
    assert np.mean(plan.rows >= 100) > 0.5  # 80 of the 180 rows left are contested
    assert (np.diff(plan.contest) <= 0).all()
    np.testing.assert_array_equal(
        plan.rows, label_next(pool, verdict, np.array([0.5, 0.5]), labeled, 40).rows
    )


def test_worth_is_the_ratio_of_variances_of_random_and_chosen_labels(
    contest: tuple[CalibratedPool, np.ndarray],
) -> None:
    """Simulated: means of draws at random, and of draws in proportion to the weights and divided by them."""
    pool, _ = contest
    verdict, chances = calibrate(pool, EMPTY), np.array([0.5, 0.5])
    everything = label_next(pool, verdict, chances, np.empty(0, dtype=np.int64), 200)
    spread, rng = everything.contest, np.random.default_rng(3)
    chosen = (1 - EXPLORE) * spread + EXPLORE
    at_random = rng.choice(200, 400_000)
    by_contest = rng.choice(200, 400_000, p=chosen / chosen.sum())
    # the residual of a row: mean zero, standard deviation as contested
    signs = rng.choice([-1.0, 1.0], 400_000)
    ratio = np.var(signs * spread[at_random]) / np.var(signs * spread[by_contest] / chosen[by_contest])
    assert everything.worth == pytest.approx(ratio, rel=0.02)
    assert everything.worth > 1.1


def test_one_contender_or_few_rows_left_is_no_problem(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    pool, _ = contest
    verdict = calibrate(pool, EMPTY)
    assert len(label_next(pool, verdict, np.array([1.0, np.nan]), np.arange(195), 10).rows) == 5


def test_a_contested_sample_is_corrected_for_its_bias(
    contest: tuple[CalibratedPool, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine labels in ten from the contested half: weights bring the estimated gap nearer to the one that all
    labels show.
    """
    pool, labels = contest
    true_gap = np.diff(pool.losses(slice(None))[:, np.arange(200), labels].mean(axis=1))[0]

    def mean_error() -> float:
        rng, errors = np.random.default_rng(2), []
        for _ in range(20):
            rows = np.concatenate(
                [rng.choice(100, 10, replace=False), 100 + rng.choice(100, 90, replace=False)]
            )
            verdict = calibrate(pool, LabeledSample(rows, labels[rows]))
            errors.append(np.diff(verdict.anchor + verdict.correction)[0] - true_gap)
        return abs(float(np.mean(errors)))

    weighted = mean_error()
    monkeypatch.setattr("engine.recommend.calibrated._sample_weights", lambda _, rows: np.ones(len(rows)))
    assert weighted < 0.8 * mean_error()


def test_labels_to_halve_is_a_horizon_or_none(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    pool, labels = contest
    few = LabeledSample(np.arange(4), labels[:4])
    more = labels_to_halve(pool, calibrate(pool, few), few)
    assert more is None or 0 <= more <= 160
    assert labels_to_halve(pool, calibrate(pool, few), few) == more
    alone = labels_to_halve(pool, calibrate(pool, few), few, admissible=np.array([True, False]))
    assert alone == 0
