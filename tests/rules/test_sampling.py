"""Draws must be the protocol's, to the last index."""

import numpy as np
import pytest

from engine.rules.sampling import control_permutation, corrupt_labels, draw_sample, draw_subset


@pytest.mark.parametrize(("n", "repetition"), [(10, 0), (25, 3), (300, 24)])
def test_seeds_are_the_protocols(n, repetition):
    subset = np.random.Generator(np.random.PCG64(100000 + 7919 * n + repetition)).choice(
        600, n, replace=False
    )
    np.testing.assert_array_equal(draw_subset(600, n, repetition), subset)
    permutation = np.random.Generator(np.random.PCG64(200000 + 7919 * n + repetition)).permutation(n)
    np.testing.assert_array_equal(control_permutation(n, repetition), permutation)


def test_draws_are_stable_across_releases():
    assert draw_subset(60, 10, 0).tolist() == [7, 4, 45, 39, 30, 23, 16, 11, 19, 14]


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.4])
def test_corruption(rate):
    labels = np.arange(4000) % 7
    noisy = corrupt_labels(labels, 7, rate, 2)
    rng = np.random.Generator(np.random.PCG64(9500 + round(100 * rate) + 2))
    flip, offset = rng.random(4000) < rate, rng.integers(1, 7, 4000)
    np.testing.assert_array_equal(noisy, np.where(flip, (labels + offset) % 7, labels))
    assert ((noisy != labels) == flip).all()
    assert np.mean(noisy != labels) == pytest.approx(rate, abs=0.03)


def test_draw_sample_keeps_draw_order():
    labels = np.arange(50) % 3
    sample = draw_sample(labels, 12, n_classes=3, rate=0.0, repetition=1)
    np.testing.assert_array_equal(sample.rows, draw_subset(50, 12, 1))
    np.testing.assert_array_equal(sample.labels, labels[sample.rows])
