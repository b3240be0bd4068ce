"""Labels to check: planted errors are found, removal matches running the rule again, and clean samples stay
quiet.
"""

import numpy as np
import pytest

from engine.recommend.calibrated import calibrate
from engine.recommend.hypotheses import CalibratedPool, calibrated_pool
from engine.recommend.suspects import picks_without, suspects
from engine.rules.statistics import pool_statistics
from engine.types import LabeledSample
from tests.families import softmax


@pytest.fixture(scope="module")
def planted() -> tuple[CalibratedPool, LabeledSample, np.ndarray]:
    rng = np.random.default_rng(0)
    logits = 5 * rng.normal(size=(300, 6))
    teacher = softmax(logits)
    labels = np.array([rng.choice(6, p=p) for p in teacher])
    candidates = softmax(np.stack([logits, 0.5 * logits, logits + 2 * rng.normal(size=logits.shape)]))
    wrong = np.array([3, 17, 40])
    observed = labels[:60].copy()
    observed[wrong] = np.argmin(teacher[wrong], axis=1)
    pool = calibrated_pool(teacher, pool_statistics(teacher, candidates))
    return pool, LabeledSample(np.arange(60), observed), wrong


def test_planted_errors_come_first(planted: tuple[CalibratedPool, LabeledSample, np.ndarray]) -> None:
    pool, sample, wrong = planted
    found = suspects(pool, calibrate(pool, sample), sample)
    assert set(wrong) <= {suspect.row for suspect in found[:6]}
    assert [s.probability for s in found] == sorted(s.probability for s in found)
    for suspect in found:
        if suspect.row in wrong:
            assert suspect.likely != suspect.label


def test_removal_matches_running_again(planted: tuple[CalibratedPool, LabeledSample, np.ndarray]) -> None:
    pool, sample, _ = planted
    picks = picks_without(pool, calibrate(pool, sample), sample)
    again = []
    for i in range(sample.n):
        keep = np.arange(sample.n) != i
        again.append(np.argmin(calibrate(pool, LabeledSample(sample.rows[keep], sample.labels[keep])).scores))
    assert np.mean(picks == again) > 0.95


def test_no_labels_no_suspects(planted: tuple[CalibratedPool, LabeledSample, np.ndarray]) -> None:
    pool, _, _ = planted
    empty = LabeledSample(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    assert suspects(pool, calibrate(pool, empty), empty) == []


def test_limit_and_budget_are_kept(planted: tuple[CalibratedPool, LabeledSample, np.ndarray]) -> None:
    pool, sample, _ = planted
    mask = np.array([False, True, True])
    assert len(suspects(pool, calibrate(pool, sample), sample, limit=2)) == 2
    assert set(picks_without(pool, calibrate(pool, sample), sample, admissible=mask)) <= {1, 2}
