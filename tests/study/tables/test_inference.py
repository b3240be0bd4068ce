"""Sign flips against enumeration and scipy, Holm by hand, bootstrap intervals against scipy."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import bootstrap, norm, permutation_test

from engine.study.tables.inference import bootstrap_interval, holm, sign_flip_test

RNG = np.random.default_rng(7)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_sign_flip_against_enumeration(n: int) -> None:
    values = RNG.normal(0.4, 1, n)
    observed = abs(sum(values))
    hits = sum(
        abs(sum(s * v for s, v in zip(signs, values, strict=True))) >= observed - 1e-12
        for signs in product((1, -1), repeat=n)
    )
    assert sign_flip_test(values) == hits / 2**n


def test_sign_flip_against_scipy() -> None:
    first, second = RNG.normal(0.5, 1, 12), RNG.normal(0, 1, 12)
    oracle = permutation_test(
        (first, second),
        lambda a, b: np.mean(a - b),
        permutation_type="samples",
        n_resamples=np.inf,
        alternative="two-sided",
    )
    assert sign_flip_test(first - second) == pytest.approx(oracle.pvalue, abs=1e-12)


def test_ties_and_zeros_count_as_equal() -> None:
    # 0.1 + 0.2 - 0.3 is not 0 in floating point; every assignment that should reach the observed sum must
    # count.
    assert sign_flip_test(np.array([0.1, 0.1, 0.1])) == 2 / 8
    assert sign_flip_test(np.zeros(5)) == 1.0
    assert np.isnan(sign_flip_test(np.array([])))
    assert sign_flip_test(np.array([0.3, -0.2, -0.1])) == 1.0


def test_enumeration_reaches_twenty_two_units() -> None:
    assert sign_flip_test(np.ones(22)) == 2 / 2**22


def test_many_units_are_drawn_with_a_seed_and_agree_with_the_normal_limit() -> None:
    values = RNG.normal(0.15, 1, 60)
    p = sign_flip_test(values)
    assert p == sign_flip_test(values)
    limit = 2 * norm.sf(abs(values.sum()) / np.sqrt(np.sum(values**2)))
    assert p == pytest.approx(limit, abs=0.01)
    assert sign_flip_test(np.ones(40)) == 1 / 200_001  # never zero: the observed assignment is one of them


def test_holm_by_hand() -> None:
    # Sorted .01 .02 .03 .04 -> .04, .06, then .06 held up by the running maximum, and .06 again.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []
    adjusted = holm([0.01, float("nan"), 0.04])
    assert adjusted[0] == 0.02
    assert np.isnan(adjusted[1])
    assert adjusted[2] == 0.04


def test_bootstrap_interval_against_scipy() -> None:
    values = RNG.gamma(2, 0.1, 30)
    low, high = bootstrap_interval(values)
    oracle = bootstrap(
        (values,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    assert (low, high) == pytest.approx((oracle.low, oracle.high), abs=0.003)
    assert (low, high) == bootstrap_interval(values)
    assert np.isnan(bootstrap_interval(np.array([1.0]))).all()
