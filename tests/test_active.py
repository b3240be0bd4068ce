"""label-next: which rows it names, that a biased draw is corrected, and how the number of labels to halve the doubt behaves."""

import numpy as np
import pytest

from engine.active import label_next, labels_to_halve
from engine.calibrated import KAPPA_LABELS, CalibratedPool, calibrate, calibrated_pool, contested
from engine.pool import pool_statistics
from engine.types import LabeledSample
from tests.families import softmax

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


def test_contested_is_the_expected_move_of_the_scores() -> None:
    """Against Bayes' rule spelled out: the anchor's contrast before and after each possible label, plus the label's own term."""
    rng = np.random.default_rng(1)
    references, weights = softmax(rng.normal(size=(6, 5, 4))), softmax(rng.normal(size=6))
    expected, losses, chances = rng.random((6, 3)), rng.random((3, 5, 4)), np.array([0.5, 1.0, 2.0])
    found = contested(references, weights, expected, losses, chances, n=9)
    share = chances / chances.sum()
    for i in range(5):
        total, belief = 0.0, [sum(weights[h] * references[h, i, y] for h in range(6)) for y in range(4)]
        for m in range(3):
            gaps = [expected[h, m] - sum(share[j] * expected[h, j] for j in range(3)) for h in range(6)]
            before = sum(weights[h] * gaps[h] for h in range(6))
            terms = [losses[m, i, y] - sum(share[j] * losses[j, i, y] for j in range(3)) for y in range(4)]
            mean = sum(belief[y] * terms[y] for y in range(4))
            for y in range(4):
                after = sum(weights[h] * references[h, i, y] / belief[y] * gaps[h] for h in range(6))
                total += share[m] * belief[y] * ((after - before) ** 2 + ((terms[y] - mean) / (9 + 1 + KAPPA_LABELS)) ** 2)
        assert found[i] == pytest.approx(np.sqrt(total))


def test_rows_are_new_distinct_and_mostly_contested(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    pool, _ = contest
    verdict = calibrate(pool, EMPTY)
    labeled = np.arange(100, 120)
    plan = label_next(pool, verdict, np.array([0.5, 0.5]), labeled, 40)
    assert len(np.unique(plan.rows)) == 40
    assert not np.isin(plan.rows, labeled).any()
    assert np.mean(plan.rows >= 100) > 0.5  # 80 of the 180 rows left are contested
    assert (np.diff(plan.contest) <= 0).all()
    np.testing.assert_array_equal(plan.rows, label_next(pool, verdict, np.array([0.5, 0.5]), labeled, 40).rows)


def test_one_contender_or_few_rows_left_is_no_problem(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    pool, _ = contest
    verdict = calibrate(pool, EMPTY)
    assert len(label_next(pool, verdict, np.array([1.0, np.nan]), np.arange(195), 10).rows) == 5


def test_a_contested_sample_is_corrected_for_its_bias(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    """Nine labels in ten from the contested half: the weighted correction stays near the one from the whole pool."""
    pool, labels = contest
    whole = calibrate(pool, LabeledSample(np.arange(200), labels))
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(20):
        rows = np.concatenate([rng.choice(100, 10, replace=False), 100 + rng.choice(100, 90, replace=False)])
        verdict = calibrate(pool, LabeledSample(rows, labels[rows]))
        errors.append(np.diff(verdict.correction)[0] - np.diff(whole.correction)[0])
    assert abs(np.mean(errors)) < 0.1


def test_labels_to_halve_is_a_horizon_or_none(contest: tuple[CalibratedPool, np.ndarray]) -> None:
    pool, labels = contest
    few = LabeledSample(np.arange(4), labels[:4])
    more = labels_to_halve(pool, calibrate(pool, few), few)
    assert more is None or 0 <= more <= 160
    assert labels_to_halve(pool, calibrate(pool, few), few) == more
    alone = labels_to_halve(pool, calibrate(pool, few), few, admissible=np.array([True, False]))
    assert alone == 0
