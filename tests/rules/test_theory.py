"""The identities hold to 1e-12 on any family; the attenuation law matches exact expectation and
simulation.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.rules.theory import attenuation_factor, identity_errors, measure_attenuation
from tests.families import random_arrays


def expected_criterion(coefficients: np.ndarray, labels: np.ndarray, rate: float) -> np.ndarray:
    """Return E[a·e_ỹ] over label corruption, averaged over rows, by direct summation over all wrong classes.

    coefficients (M, n, K) hold a_g(x); the closed form is attenuation_factor·mean a_y + η/(K-1)·mean Σa.
    """
    n_classes = coefficients.shape[2]
    chance = np.full((len(labels), n_classes), rate / (n_classes - 1))
    chance[np.arange(len(labels)), labels] = 1 - rate
    return np.asarray(np.mean(np.sum(coefficients * chance, axis=2), axis=1))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), n_images=st.integers(1, 60), n_classes=st.integers(2, 12))
def test_identities(seed, n_images, n_classes):
    errors = identity_errors(*random_arrays(seed, n_images=n_images, n_classes=n_classes))
    assert max(errors.quadratic, errors.teacher_part, errors.split) < 1e-12
    assert errors.selects_brier


@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_expectation_equals_the_closed_form(rate):
    teacher, candidates, labels = random_arrays(1, n_classes=5)
    rows = np.arange(len(labels))
    for coefficients in (candidates - teacher, -np.log(np.maximum(candidates, 1e-8))):
        closed = attenuation_factor(5, rate) * np.mean(coefficients[:, rows, labels], axis=1)
        closed += rate / 4 * np.mean(coefficients.sum(axis=2), axis=1)
        np.testing.assert_allclose(expected_criterion(coefficients, labels, rate), closed, atol=1e-12)


def test_common_factor_holds_for_contrasts_and_fails_for_cross_entropy():
    teacher, candidates, labels = random_arrays(2, n_classes=5)
    rows, factor = np.arange(len(labels)), attenuation_factor(5, 0.3)
    contrast = candidates - teacher
    np.testing.assert_allclose(
        expected_criterion(contrast, labels, 0.3),
        factor * np.mean(contrast[:, rows, labels], axis=1),
        atol=1e-12,
    )
    loss = -np.log(np.maximum(candidates, 1e-8))
    noisy, clean = expected_criterion(loss, labels, 0.3), np.mean(loss[:, rows, labels], axis=1)
    assert np.ptp(noisy - factor * clean) > 0.1


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_measured_slopes_match(rate):
    teacher, candidates, labels = random_arrays(4, n_images=3000, n_classes=6)
    measured = measure_attenuation(teacher, candidates, labels, rate, repetitions=20)
    assert measured.predicted == pytest.approx(1 - 6 * rate / 5)
    assert measured.error < 0.02
