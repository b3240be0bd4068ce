"""The two published peers against hand-worked cases, closed forms and brute force."""

import numpy as np
import pytest
from scipy import stats

from engine.decide.choose import choose
from engine.predictions.file import make_predictions
from engine.rules.consensus import (
    MULTIPLIER,
    PRIOR_STRENGTH,
    UPDATE_STRENGTH,
    class_shares,
    confusion_posteriors,
    consensus_scores,
    probability_best,
)
from engine.rules.prediction_powered import powered_losses, powered_mean
from engine.types import LabeledSample, UserError
from tests.families import random_arrays, random_family

NOTHING = LabeledSample(np.empty(0, np.int64), np.empty(0, np.int64))


def test_prior_counts_by_hand() -> None:
    """Two images, two classes; both candidates' mean says class 0 on the first and 1 on the second."""
    candidates = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.3, 0.7]]])
    counts = confusion_posteriors(candidates, NOTHING)
    expected = MULTIPLIER * (np.ones((2, 2)) + PRIOR_STRENGTH * candidates[0])
    np.testing.assert_allclose(counts[0], expected)
    labeled = confusion_posteriors(candidates, LabeledSample(np.array([1]), np.array([0])))
    np.testing.assert_allclose(labeled[0] - counts[0], [[0, UPDATE_STRENGTH], [0, 0]])


def test_class_shares_by_hand() -> None:
    candidates = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    counts = np.array([[[3.0, 1.0], [1.0, 1.0]]])
    # answer 0 comes from the classes as 3 : 1, answer 1 as 1 : 1
    np.testing.assert_allclose(class_shares(candidates, counts), [(0.75 + 0.5) / 2, (0.25 + 0.5) / 2])


def test_chance_to_be_best_equals_a_simulation() -> None:
    counts = np.array([[[8.0, 2.0], [3.0, 3.0]], [[6.0, 4.0], [2.0, 4.0]], [[5.0, 5.0], [1.0, 5.0]]])
    shares, rng, expected = np.array([0.7, 0.3]), np.random.default_rng(0), np.zeros(3)
    for c in range(2):
        right = counts[:, c, c]
        drawn = stats.beta.rvs(right, counts[:, c].sum(axis=1) - right, size=(200_000, 3), random_state=rng)
        expected += shares[c] * np.bincount(drawn.argmax(axis=1), minlength=3) / 200_000
    np.testing.assert_allclose(probability_best(counts, shares), expected, atol=0.01)


def test_two_equal_candidates_share_the_chance() -> None:
    counts = np.tile(np.array([[4.0, 1.0], [1.0, 4.0]]), (2, 1, 1))
    np.testing.assert_allclose(probability_best(counts, np.array([0.5, 0.5])), 0.5)


def test_chances_are_those_of_the_authors_own_code() -> None:
    """The figures are what CODA's published functions (github.com/justinkay/coda, alpha 0.9, learning rate
    0.01, multiplier 2) gave on these arrays in double precision, before any label and after eight.
    """
    _, candidates, labels = random_arrays(5)
    rows = np.array([3, 9, 20, 31, 7, 1, 14, 25])
    before = [0.114973, 0.122965, 0.118392, 0.123917, 0.127284, 0.128827, 0.131146, 0.132495]
    after = [0.114297, 0.122826, 0.117667, 0.124453, 0.126447, 0.129228, 0.132193, 0.132889]
    shares = [0.28851, 0.238553, 0.237917, 0.23502]
    got = class_shares(candidates, confusion_posteriors(candidates, NOTHING))
    np.testing.assert_allclose(got, shares, atol=2e-6)
    np.testing.assert_allclose(consensus_scores(candidates, NOTHING), before, atol=2e-6)
    sample = LabeledSample(rows, labels[rows])
    np.testing.assert_allclose(consensus_scores(candidates, sample), after, atol=2e-6)


@pytest.mark.parametrize(
    ("shift", "published"), [(0.3, -0.05731862), (3.0, 0.52727093)], ids=["a pool like the sample", "another"]
)
def test_powered_mean_is_that_of_the_authors_own_package(shift: float, published: float) -> None:
    """`ppi_mean_pointestimate(seen, expected, pool)` of ppi-python 0.2.3, power tuning on."""
    rng = np.random.default_rng(0)
    seen = rng.normal(size=20).round(2)
    expected = (seen + rng.normal(size=20)).round(2)
    pool = (rng.normal(size=200) * 1.4 + shift).round(2)
    assert powered_mean(seen[None], expected[None], pool[None])[0] == pytest.approx(published, abs=1e-7)


def test_powered_mean_of_a_perfect_prediction_is_the_pools_mean() -> None:
    """Where predictions are right, labels add nothing: the estimate is the mean over the pool, up to n/N."""
    rng = np.random.default_rng(1)
    pool = rng.normal(size=(1, 100_000))
    seen = pool[:, :50]
    estimate = powered_mean(seen, seen, pool)
    assert estimate[0] == pytest.approx(pool.mean(), abs=0.05)
    assert abs(estimate[0] - pool.mean()) < 0.3 * abs(seen.mean() - pool.mean())


def test_powered_mean_of_an_unrelated_prediction_is_the_labels_mean() -> None:
    seen = np.array([[1.0, 3.0, 1.0, 3.0]])
    expected = np.array([[5.0, 5.0, 7.0, 7.0]])  # no covariance
    np.testing.assert_allclose(powered_mean(seen, expected, np.full((1, 10), 9.0)), 2.0)


def test_power_tuning_minimises_the_variance() -> None:
    """Over many draws the tuned weight, itself learned from 40 labels, is near the best fixed one."""
    rng, errors = np.random.default_rng(2), []
    for _ in range(400):
        truth = rng.normal(size=2000)
        guess = truth + 1.5 * rng.normal(size=2000)
        x, f = truth[None, :40], guess[None, :40]
        fixed = [x.mean() + w * (guess.mean() - f.mean()) for w in (0.0, 0.3, 0.6, 1.0)]
        errors.append([float(powered_mean(x, f, guess[None])[0]), *fixed] - truth.mean())
    spread = np.std(errors, axis=0)
    assert spread[0] < 1.1 * spread[1:].min()


def test_powered_losses_match_a_loop() -> None:
    teacher, candidates, labels = random_arrays(5)
    rows = np.array([3, 9, 20, 31, 7])
    got = powered_losses(teacher, candidates, rows, labels[rows], 1e-8)
    for m, probs in enumerate(candidates):
        losses = -np.log(np.maximum(probs, 1e-8))
        f = np.array([sum(teacher[i, k] * losses[i, k] for k in range(4)) for i in range(len(losses))])
        x = np.array([losses[i, labels[i]] for i in rows])
        both = np.concatenate([f[rows], f])
        weight = np.cov(x, f[rows], ddof=0)[0, 1] / ((1 + 5 / len(f)) * both.var(ddof=1))
        expected = x.mean() + min(max(weight, 0), 1) * (f.mean() - f[rows].mean())
        assert got[m] == pytest.approx(expected)


@pytest.mark.parametrize("method", ["coda", "ppi"])
def test_peers_are_rules_like_others(method: str) -> None:
    family = random_family(2, n_images=120)
    choice = choose(method, family, LabeledSample(np.arange(30), family.labels[:30]))
    assert choice.name == family.names[choice.index]
    best = np.argmax if choice.better == "higher" else np.argmin
    assert choice.index == best(choice.scores)


def test_only_the_consensus_can_do_without_labels() -> None:
    family = make_predictions(*random_arrays(1)[:2])
    assert choose("coda", family).n_labels == 0
    with pytest.raises(UserError, match="needs labels"):
        choose("ppi", family)
