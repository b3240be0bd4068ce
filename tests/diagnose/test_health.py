"""Collapse, regimes and calibration against brute force and hand-made families."""

import numpy as np
import pytest
from scipy.stats import binomtest, pearsonr

from engine.diagnose.assumptions import check_assumptions
from engine.diagnose.health import (
    candidate_health,
    collapse_rates,
    degradation_regime,
    reliability,
    wilson,
)
from engine.rules.statistics import pool_statistics
from engine.types import LabeledSample
from tests.families import random_arrays, softmax


def brute_ece(probs, labels, n_bins=15):
    total = 0.0
    for b in range(n_bins):
        low, high = b / n_bins, (b + 1) / n_bins
        members = [
            (max(p), int(np.argmax(p)) == y)
            for p, y in zip(probs, labels, strict=True)
            if low < max(p) <= high
        ]
        if members:
            confidence, hits = zip(*members, strict=True)
            total += len(members) / len(labels) * abs(np.mean(hits) - np.mean(confidence))
    return total


@pytest.mark.parametrize("n", [1, 7, 40])
def test_wilson_intervals_are_those_of_scipy(n):
    low, high = wilson(np.arange(n + 1), n)
    found = [binomtest(k, n).proportion_ci(method="wilson") for k in range(n + 1)]
    np.testing.assert_allclose(low, [interval.low for interval in found], atol=1e-14)
    np.testing.assert_allclose(high, [interval.high for interval in found], atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_ece_is_the_brute_force_sum(seed):
    teacher, _, labels = random_arrays(seed, n_images=200)
    assert reliability(teacher, labels).ece == pytest.approx(brute_ece(teacher, labels), abs=1e-12)


def test_perfect_and_certain_predictions():
    perfect = np.eye(3)[[0, 1, 2, 0]]
    assert reliability(perfect, np.array([0, 1, 2, 0])).ece == 0
    assert reliability(perfect, np.array([1, 2, 0, 1])).ece == 1
    assert reliability(perfect, np.array([0, 1, 2, 0])).counts[-1] == 4


def test_health_with_and_without_labels():
    teacher, candidates, labels = random_arrays(0, n_images=200)
    pool = pool_statistics(teacher, candidates)
    proxy = candidate_health(pool)
    assert proxy.is_proxy
    np.testing.assert_allclose(proxy.quality, proxy.agreement)
    assert proxy.quality[-1] == 1
    assert proxy.single_class[0]
    assert proxy.distinct[0] == 1 / 200
    rows = np.arange(50)
    measured = candidate_health(pool, LabeledSample(rows, labels[rows]))
    np.testing.assert_allclose(
        measured.quality, np.mean(candidates[:, rows].argmax(axis=2) == labels[rows], axis=1)
    )
    assert (measured.quality_low <= measured.quality).all()
    assert (measured.quality <= measured.quality_high).all()
    assert measured.collapsed[0]
    assert not measured.collapsed[-1]


def family_with(confident_collapse: bool):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 5, 300)
    signal = 4 * np.eye(5)[labels] + rng.normal(size=(300, 5))
    broken = (
        30 * np.eye(5)[np.zeros(300, dtype=int)] if confident_collapse else 0.1 * rng.normal(size=(300, 5))
    )
    scales = (0.05, 0.4, 0.7, 1.0)
    if confident_collapse:
        logits = [broken, broken + rng.normal(size=(300, 5)), 0.7 * signal, signal]
    else:
        logits = [broken, *(scale * signal + rng.normal(size=(300, 5)) * (1 - scale) for scale in scales[1:])]
    return softmax(signal), softmax(np.array(logits)), labels


@pytest.mark.parametrize(("confident_collapse", "kind"), [(True, "overconfident"), (False, "underconfident")])
def test_both_regimes_are_recognised(confident_collapse, kind):
    teacher, candidates, labels = family_with(confident_collapse)
    pool = pool_statistics(teacher, candidates)
    health = candidate_health(pool, LabeledSample(np.arange(300), labels))
    regime = degradation_regime(health, pool.distortion)
    assert regime.kind == kind
    assert regime.correlation == pytest.approx(pearsonr(health.quality, health.confidence)[0])
    verdicts = {a.rule: a.holds for a in check_assumptions(pool, teacher, health, regime)}
    assert verdicts["avg-confidence"] is (kind == "underconfident")
    assert verdicts["atc-mc"] is (kind == "underconfident")
    assert verdicts["softmax-corr"] is True


def test_no_collapse_and_constant_confidence():
    teacher, candidates, _ = random_arrays(1)
    same = np.stack([candidates[-1], candidates[-1]])
    pool = pool_statistics(teacher, same)
    regime = degradation_regime(candidate_health(pool), pool.distortion)
    assert regime.kind == "healthy"
    assert np.isnan(regime.correlation)
    assert np.isnan(regime.collapsed_distinct)


def test_imbalanced_pool_breaks_the_uniform_prior():
    rng = np.random.default_rng(0)
    teacher = softmax(6 * np.eye(5)[np.where(rng.random(200) < 0.9, 0, 3)])
    pool = pool_statistics(teacher, teacher[None])
    health = candidate_health(pool)
    verdicts = {
        a.rule: a
        for a in check_assumptions(pool, teacher, health, degradation_regime(health, pool.distortion))
    }
    assert verdicts["cot"].holds is False
    assert verdicts["cot"].is_proxy


def test_collapse_rates_need_slugs():
    names = ("b2-tensor-q99", "b2-tensor-q100", "b2-channel-q99", "b8-channel-q100-ends")
    rates = {
        (r.bits, r.granularity): (r.rate, r.n_candidates)
        for r in collapse_rates(names, np.array([True, False, True, False]))
    }
    assert rates == {(2, "tensor"): (0.5, 2), (2, "channel"): (1.0, 1), (8, "channel"): (0.0, 1)}
    assert collapse_rates(("a",), np.array([True])) == ()
