"""Label errors: likelihoods and signal against small matrices written out here. See also test_calibrated."""

import numpy as np
import pytest

from engine.recommend.channel import at_labels, confusions, likelihoods, signal, true_classes, undone
from engine.recommend.trust import error_prior
from tests.families import softmax


def test_confusions_by_hand() -> None:
    """Two images of class 0 by the reference; the teacher leans to class 1 there, half an image a pair
    added.
    """
    reference = np.array([[1.0, 0, 0], [1.0, 0, 0]])
    teacher = np.array([[0.6, 0.4, 0.0], [0.5, 0.3, 0.2]])
    found = confusions(reference, teacher)
    np.testing.assert_allclose(found[0], [0, 1.2 / 1.9, 0.7 / 1.9])
    np.testing.assert_allclose(found[1], [0.5, 0, 0.5])


def test_likelihoods_are_the_channel_applied_to_the_reference() -> None:
    rng = np.random.default_rng(0)
    references, labels = softmax(rng.normal(size=(3, 5, 4))), rng.integers(0, 4, 5)
    confusion = confusions(softmax(rng.normal(size=(9, 4))), softmax(rng.normal(size=(9, 4))))
    prior = error_prior("normal", 4)
    found = likelihoods(prior, references, labels, confusion)
    for e, (rate, confused) in enumerate(zip(prior.rates, prior.confused, strict=True)):
        wrong = confusion if confused else (np.ones((4, 4)) - np.eye(4)) / 3
        channel = (1 - rate) * np.eye(4) + rate * wrong
        for h in range(3):
            for i, label in enumerate(labels):
                assert found[e, h, i] == pytest.approx(references[h, i] @ channel[:, label])


def test_true_classes_are_bayes_rule() -> None:
    """Every error and hypothesis by itself, then averaged by weights that are no posterior of anything."""
    rng = np.random.default_rng(1)
    references, labels = softmax(rng.normal(size=(3, 5, 4))), rng.integers(0, 4, 5)
    confusion = confusions(softmax(rng.normal(size=(9, 4))), softmax(rng.normal(size=(9, 4))))
    prior = error_prior("normal", 4)
    weights = rng.dirichlet(np.ones(3 * len(prior.rates))).reshape(-1, 3)
    odds = weights[:, :, None] / likelihoods(prior, references, labels, confusion)
    expected = np.zeros((5, 4))
    for e, (rate, confused) in enumerate(zip(prior.rates, prior.confused, strict=True)):
        wrong = confusion if confused else (np.ones((4, 4)) - np.eye(4)) / 3
        channel = (1 - rate) * np.eye(4) + rate * wrong
        for h in range(3):
            for i, label in enumerate(labels):
                joint = references[h, i] * channel[:, label]
                expected[i] += weights[e, h] * joint / joint.sum()
    np.testing.assert_allclose(true_classes(prior, odds, references, labels, confusion), expected)


@pytest.mark.parametrize(
    "confusion", [None, np.array([[0, 0.7, 0.3, 0], [0.5, 0, 0, 0.5], [1, 0, 0, 0], [0.2, 0.3, 0.5, 0]])]
)
def test_errors_are_undone_on_average(confusion: np.ndarray | None) -> None:
    """Averaged over every label that could be observed, the weighed loss is the one at the true class."""
    losses, k, rate = np.array([[0.1, 2.0, 3.0, 5.0], [1.0, 0.2, 0.4, 2.0]]), 4, 0.3
    wrong = (np.ones((k, k)) - np.eye(k)) / (k - 1) if confusion is None else confusion
    channel = (1 - rate) * np.eye(k) + rate * wrong
    read = undone(np.arange(k), k, rate, confusion) @ losses.T
    np.testing.assert_allclose(channel @ read, losses.T)


def test_checked_labels_are_the_true_classes() -> None:
    references, labels = np.full((2, 3, 4), 0.25), np.array([0, 3, 1])
    odds = np.full((1, 2, 3), 0.5) / 0.25
    found = true_classes(error_prior("checked", 4), odds, references, labels, np.eye(4))
    np.testing.assert_allclose(found, np.eye(4)[labels])


def test_a_reference_never_excludes_a_label() -> None:
    assert at_labels(np.array([[[1.0, 0.0]]]), np.array([1]))[0, 0] > 0


def test_signal_of_symmetric_errors_is_the_same_either_way() -> None:
    symmetric = (np.ones((5, 5)) - np.eye(5)) / 4
    for rate in (0.0, 0.2, 0.5):
        assert signal(rate, 5, symmetric) == pytest.approx(signal(rate, 5, None))


def test_errors_both_ways_between_two_classes_leave_least() -> None:
    pairs = np.kron(np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert 0 < signal(0.4, 4, pairs) < signal(0.4, 4, None)
