"""The calibrated rule against slow literal loops, its limits (no labels, perfect references) and what it
recovers.
"""

import time

import numpy as np
import pytest

from engine.recommend.calibrated import CHECKED_LABELS, SHAPE_LABELS, SHAPE_WEIGHT, UNDONE_LABELS, calibrate
from engine.recommend.hypotheses import SHARES, TEMPERATURES, CalibratedPool, calibrated_pool
from engine.recommend.shares import SHARE_SD
from engine.recommend.summary import posterior_summary
from engine.recommend.trust import error_prior
from engine.rules.statistics import pool_statistics
from engine.types import LabeledSample, LabelTrust
from tests.families import random_arrays, softmax


def prepared(teacher: np.ndarray, candidates: np.ndarray) -> CalibratedPool:
    return calibrated_pool(teacher, pool_statistics(teacher, candidates))


@pytest.fixture(scope="module")
def small() -> tuple[CalibratedPool, np.ndarray, np.ndarray]:
    teacher, candidates, labels = random_arrays(3)
    return prepared(teacher, candidates), candidates, labels


def sample_of(rows: list[int], labels: np.ndarray) -> LabeledSample:
    at = np.array(rows, dtype=np.int64)
    return LabeledSample(at, labels[at])


def test_prior_and_grids_are_distributions(small: tuple[CalibratedPool, np.ndarray, np.ndarray]) -> None:
    pool, _, _ = small
    assert np.exp(pool.log_prior).sum() == pytest.approx(1)
    assert len(pool.ref) == 3 * len(TEMPERATURES) * len(SHARES)
    np.testing.assert_allclose(pool.references(np.arange(4)).sum(axis=2), 1)


def test_expected_losses_match_a_loop(small: tuple[CalibratedPool, np.ndarray, np.ndarray]) -> None:
    pool, candidates, _ = small
    n_candidates, n_images, n_classes = candidates.shape
    for h in (0, 17, len(pool.ref) - 1):
        for m in range(n_candidates):
            total = 0.0
            for i in range(n_images):
                weights = [
                    np.exp(pool.log_refs[pool.ref[h], i, k] / pool.temperature[h] + pool.bias[h, k])
                    for k in range(n_classes)
                ]
                total += sum(
                    w / sum(weights) * -np.log(max(candidates[m, i, k], 1e-8)) for k, w in enumerate(weights)
                )
            assert pool.expected[h, m] == pytest.approx(total / n_images)


@pytest.mark.parametrize("trust", ["checked", "normal", "crowd"])
def test_scores_match_a_loop(small: tuple[CalibratedPool, np.ndarray, np.ndarray], trust: LabelTrust) -> None:
    """Posterior, effective labels, correction and score, term by term, given the class shares that
    were learned.
    """
    pool, candidates, labels = small
    sample, k = sample_of([5, 1, 30, 12, 7], labels), candidates.shape[2]
    verdict, prior, weights = calibrate(pool, sample, trust), error_prior(trust, k), {}
    references = pool.references(sample.rows, verdict.bias)
    wrong = {False: (np.ones((k, k)) - np.eye(k)) / (k - 1), True: pool.confusion}
    channels = [
        (1 - r) * np.eye(k) + r * wrong[bool(c)] for r, c in zip(prior.rates, prior.confused, strict=True)
    ]
    for e, channel in enumerate(channels):
        for h in range(len(pool.ref)):
            weights[e, h] = np.exp(verdict.log_prior[h] + prior.log_odds[e])
            for i, label in enumerate(sample.labels):
                weights[e, h] *= references[h, i] @ channel[:, label]
    total = sum(weights.values())
    anchor = sum(weight * verdict.expected[h] for (_, h), weight in weights.items()) / total
    correction, effective, undoing = np.zeros(len(candidates)), 0.0, np.zeros((k, k))
    for kind in {bool(c) for c in prior.confused}:
        part = {key: weight for key, weight in weights.items() if prior.confused[key[0]] == kind}
        rate = sum(weight * prior.rates[e] for (e, _), weight in part.items()) / sum(part.values())
        spread = np.sqrt(((wrong[kind] ** 2).sum() - 1) / (k - 1))
        share = sum(part.values()) / total
        effective += share * sample.n * (1 - rate - rate * spread) ** 2
        undoing += share * np.linalg.inv((1 - rate) * np.eye(k) + rate * wrong[kind])
    kin = pool.kinship
    undone = kin + (1 - kin) * effective / (effective + UNDONE_LABELS)
    for i, (row, label) in enumerate(zip(sample.rows, sample.labels, strict=True)):
        before, after = np.zeros(k), np.zeros(k)
        for (e, h), weight in weights.items():
            before += weight * references[h, i] / total
            joint = references[h, i] * channels[e][:, label]
            after += weight * joint / joint.sum() / total
        losses = -np.log(np.maximum(candidates[:, row], 1e-8))
        read = (1 - undone) * after + undone * undoing[label]
        correction += losses @ (read - before) / sample.n
    assert verdict.error_rate == pytest.approx(
        sum(weight * prior.rates[e] for (e, _), weight in weights.items()) / total
    )
    assert verdict.effective == pytest.approx(effective, rel=1e-6)
    half = min(pool.kappa_labels, CHECKED_LABELS) if trust == "checked" else pool.kappa_labels
    count = kin * effective + (1 - kin) * sample.n
    kappa = count / (count + half)
    np.testing.assert_allclose(verdict.scores, anchor + kappa * correction, atol=1e-6)
    np.testing.assert_allclose(verdict.residuals.mean(axis=1), verdict.correction)


def test_a_sure_peer_gains_nothing_from_few_labels_that_may_be_wrong() -> None:
    """The copy of a candidate that differs only in classes it excludes (1e-4 or 1e-8) is charged for labels
    there, never rewarded for the possibility that a right label is wrong.
    """
    rng = np.random.default_rng(5)
    logits = 3 * rng.normal(size=(200, 6))
    probs = softmax(logits)
    soft, sure = np.maximum(probs, 1e-4), np.where(probs < 1e-2, 1e-8, probs)
    candidates = np.stack([p / p.sum(axis=1, keepdims=True) for p in (soft, sure, probs)])
    teacher = softmax(logits + 1.5 * rng.normal(size=logits.shape))
    labels = np.array([rng.choice(6, p=p) for p in softmax(logits / 1.5)])
    pool = prepared(teacher, candidates)
    assert pool.kinship < 0.05
    for n in (10, 30):
        verdict = calibrate(pool, sample_of(list(range(n)), labels))
        assert verdict.scores[1] > verdict.scores[0]


def test_learned_shares_are_the_mode_of_the_posterior(
    small: tuple[CalibratedPool, np.ndarray, np.ndarray],
) -> None:
    """Moving a learned bias in any direction lowers likelihood times prior, η summed out by its weights
    there.
    """
    pool, _, labels = small
    sample = sample_of(list(range(25)), labels)
    verdict = calibrate(pool, sample)
    h = int(np.flatnonzero(pool.learned)[4])
    rates, k = verdict.rates[~verdict.confused, None], pool.n_classes

    def height(bias: np.ndarray) -> float:
        full = verdict.bias.copy()
        full[h] = bias
        r = pool.references(sample.rows, full)[h, np.arange(25), sample.labels]
        by_rate = np.log((1 - rates) * r + rates / (k - 1) * (1 - r)).sum(axis=1)
        return float(np.logaddexp.reduce(by_rate) - ((bias - pool.bias[h]) ** 2).sum() / (2 * SHARE_SD**2))

    top = height(verdict.bias[h])
    assert top > height(pool.bias[h])
    rng = np.random.default_rng(0)
    moves = [verdict.bias[h] + 0.3 * rng.normal(size=k) for _ in range(20)]
    assert all(height(move) < top + 1e-3 for move in moves)


def test_learned_shares_find_an_imbalance() -> None:
    """Labels from a long-tailed target, a teacher trained on a balanced source: its learned shares approach
    the target's.
    """
    rng = np.random.default_rng(6)
    shares = np.array([0.6, 0.25, 0.1, 0.05])
    labels = rng.choice(4, 400, p=shares)
    logits = rng.normal(size=(400, 4))
    logits[np.arange(400), labels] += 1.5
    teacher = softmax(logits)
    pool = prepared(teacher, teacher[None])
    verdict = calibrate(pool, LabeledSample(np.arange(200), labels[:200]))
    weights = verdict.hypothesis_weights
    assert weights[pool.learned].sum() > 0.9
    found = np.einsum("h,hnk->k", weights, pool.references(slice(200, 400), verdict.bias)) / 200
    assert np.abs(found - shares).max() < 0.06 < np.abs(teacher.mean(axis=0) - shares).max()


def test_expected_losses_follow_learned_shares(small: tuple[CalibratedPool, np.ndarray, np.ndarray]) -> None:
    """A pool of few rows is recomputed exactly for every hypothesis that counts."""
    pool, candidates, labels = small
    verdict = calibrate(pool, sample_of(list(range(20)), labels))
    h = int(np.argmax(np.where(pool.learned, verdict.hypothesis_weights, 0)))
    references = pool.references(slice(None), verdict.bias)[h]
    losses = -np.log(np.maximum(candidates, 1e-8))
    np.testing.assert_allclose(
        verdict.expected[h], np.einsum("nk,mnk->m", references, losses) / len(references)
    )


def test_without_labels_the_prior_decides(small: tuple[CalibratedPool, np.ndarray, np.ndarray]) -> None:
    pool, _, labels = small
    verdict = calibrate(pool, sample_of([], labels.astype(int)))
    np.testing.assert_allclose(verdict.scores, np.exp(pool.log_prior) @ pool.expected)
    assert verdict.kappa == 0
    assert verdict.belief.shape == (0,)


def test_evenness_moves_class_shares_to_equal_ones() -> None:
    rng = np.random.default_rng(0)
    teacher = softmax(rng.normal(size=(300, 5)) + np.array([2.0, 0, 0, 0, -1]))
    pool = prepared(teacher, np.stack([teacher, teacher]))
    shares = pool.references(slice(None)).mean(axis=1)
    np.testing.assert_allclose(shares[pool.evenness == 1], 0.2, atol=5e-3)
    kept = (pool.evenness == 0) & (pool.ref == 0) & (np.abs(pool.temperature - 1) < 0.05)
    assert shares[kept].max() > 0.4


@pytest.mark.parametrize("true_temperature", [0.5, 1.0, 2.5])
def test_temperature_is_recovered(true_temperature: float) -> None:
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(1500, 6))
    truth = softmax(logits / true_temperature)
    labels = np.array([rng.choice(6, p=p) for p in truth])
    teacher = softmax(logits)
    pool = prepared(teacher, teacher[None])
    summary = posterior_summary(pool, calibrate(pool, LabeledSample(np.arange(1500), labels)))
    assert summary["temperature"] == pytest.approx(true_temperature, rel=0.25)
    assert summary["error_rate"] < 0.08  # softness and wrong labels look alike, a little


@pytest.mark.parametrize("rate", [0.0, 0.2, 0.4])
def test_error_rate_is_recovered(rate: float) -> None:
    rng = np.random.default_rng(2)
    logits = 6 * rng.normal(size=(800, 8))
    teacher = softmax(logits)
    labels = np.array([rng.choice(8, p=p) for p in teacher])
    wrong = rng.random(800) < rate
    observed = np.where(wrong, (labels + rng.integers(1, 8, 800)) % 8, labels)
    pool = prepared(teacher, teacher[None])
    verdict = calibrate(pool, LabeledSample(np.arange(800), observed))
    assert verdict.error_rate == pytest.approx(rate, abs=0.06)
    if rate:
        assert verdict.belief[~wrong].mean() > 0.85 > 0.4 > verdict.belief[wrong].mean()


def test_recalibration_prefers_the_calibrated_candidate() -> None:
    """A teacher that is far too sure would anchor on its own copy; forty labels show that the softer
    candidate is better.
    """
    rng = np.random.default_rng(3)
    logits = 2 * rng.normal(size=(400, 5))
    labels = np.array([rng.choice(5, p=p) for p in softmax(logits)])
    candidates = softmax(np.stack([4 * logits, logits, 0.1 * logits]))
    pool = prepared(softmax(4 * logits), candidates)
    assert np.argmin(calibrate(pool, LabeledSample(np.arange(40), labels[:40])).scores) == 1


def test_a_label_the_reference_excludes_is_survived() -> None:
    teacher = np.tile(np.array([[1.0, 0, 0]], dtype=np.float32), (30, 1))
    pool = prepared(teacher, np.stack([teacher, np.full_like(teacher, 1 / 3)]))
    verdict = calibrate(pool, LabeledSample(np.arange(5), np.full(5, 2)))
    assert np.isfinite(verdict.scores).all()
    assert np.argmin(verdict.scores) == 1


def test_a_call_is_fast() -> None:
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(600, 10))
    candidates = softmax(logits + rng.normal(size=(72, 600, 10))).astype(np.float32)
    pool = prepared(softmax(2 * logits), candidates)
    sample = LabeledSample(np.arange(50), rng.integers(0, 10, 50))
    calibrate(pool, sample)
    times = []
    for _ in range(5):
        start = time.process_time()
        calibrate(pool, sample)
        times.append(time.process_time() - start)
    assert min(times) < 0.05


def test_the_shape_penalty_fades_and_fades_slower_with_wrong_labels() -> None:
    """Half of it is left at SHAPE_LABELS clean labels; at as many labels of which 40 % are wrong, more is
    left.
    """
    rng = np.random.default_rng(7)
    logits = 6 * rng.normal(size=(800, 8))
    teacher = softmax(logits)
    labels = np.array([rng.choice(8, p=p) for p in teacher])
    wrong = np.where(rng.random(800) < 0.4, (labels + rng.integers(1, 8, 800)) % 8, labels)
    # A near copy of the teacher: among peers there is no such penalty.
    pool = prepared(teacher, np.stack([teacher, softmax(0.2 * logits), softmax(0.99 * logits)]))
    assert pool.kinship > 0.9
    start = calibrate(pool, LabeledSample(np.empty(0, np.int64), np.empty(0, np.int64)))
    assert start.penalty[0] == pytest.approx(0, abs=1e-3)
    assert start.penalty[1] > 0.01
    peers = prepared(teacher, np.stack([teacher, softmax(0.2 * logits)]))
    assert calibrate(peers, LabeledSample(np.empty(0, np.int64), np.empty(0, np.int64))).penalty.max() < 1e-3
    left = []
    for given in (labels, wrong):
        verdict = calibrate(pool, LabeledSample(np.arange(100), given[:100]))
        even = verdict.hypothesis_weights @ pool.evenness
        left.append(verdict.penalty[1] / (SHAPE_WEIGHT * pool.kinship * even * pool.shape[1]))
        assert left[-1] == pytest.approx(1 / (1 + (verdict.effective / SHAPE_LABELS) ** 2))
    assert left[0] < 0.15 < left[1]


def test_two_classes_survive_noise() -> None:
    """With two classes half of all labels wrong would say nothing; the grid of error rates stops before
    that.
    """
    rng = np.random.default_rng(8)
    teacher = softmax(3 * rng.normal(size=(200, 2)))
    pool = prepared(teacher, np.stack([teacher, np.full_like(teacher, 0.5)]))
    verdict = calibrate(pool, LabeledSample(np.arange(40), rng.integers(0, 2, 40)))
    assert verdict.rates.max() == pytest.approx(0.4)
    assert np.isfinite(verdict.recommended).all()
    assert np.abs(verdict.scores).max() < 20
