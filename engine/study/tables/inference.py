"""Inference on paired differences between rules: sign-flip tests, Holm's correction, bootstrap intervals.

Sees arrays of one number per statistical unit. Candidates, subsets and corruption draws are never units.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from engine.types import Floats

MAX_EXACT_UNITS = 22  # up to here all 2^n sign assignments are enumerated (the paper's limit)
SIGN_FLIP_DRAWS = 200_000
BOOTSTRAP_DRAWS = 10_000
_SIGN_FLIP_SEED, _BOOTSTRAP_SEED = 400_000, 500_000
_CHUNK = 1 << 16  # random sign assignments held at once
_TIE = 1e-12  # relative: sums that differ by rounding only count as equal


def sign_flip_test(differences: Floats, *, draws: int = SIGN_FLIP_DRAWS) -> float:
    """Return the two-sided p-value of "the mean difference is zero" under random signs of the units'
    differences (n,).

    Complete enumeration up to 22 units; beyond, `draws` seeded random assignments with the observed one
    counted in. No units give nan; differences that are all zero give 1.
    """
    values = np.asarray(differences, dtype=np.float64)
    if not len(values):
        return float("nan")
    limit = abs(float(values.sum())) - _TIE * float(np.abs(values).sum())
    if len(values) <= MAX_EXACT_UNITS:
        return _as_extreme(values, limit) / float(2 ** len(values))
    return _sampled(values.tobytes(), limit, draws)


def _as_extreme(values: Floats, limit: float) -> int:
    """Count the sign assignments whose sum is at least as far from zero as the limit.

    Every assignment is one of the first half of the units with one of the second: with the second's sums
    sorted, a search counts all partners of a first at once, and 2^22 assignments cost 2^11 searches.
    """
    if limit <= 0:
        return int(2 ** len(values))
    middle = len(values) // 2
    first, second = _all_sums(values[:middle]), np.sort(_all_sums(values[middle:]))
    above = len(second) - np.searchsorted(second, limit - first, side="left")
    below = np.searchsorted(second, -limit - first, side="right")
    return int(above.sum() + below.sum())


def _all_sums(values: Floats) -> Floats:
    sums = np.zeros(1)
    for value in values:
        sums = np.concatenate([sums + value, sums - value])
    return sums


@lru_cache(maxsize=4096)  # a report asks for the same test in a table, its picture and its finding
def _sampled(values: bytes, limit: float, draws: int) -> float:
    units = np.frombuffer(values)
    rng = np.random.Generator(np.random.PCG64(_SIGN_FLIP_SEED + len(units)))
    extreme, left = 0, draws
    while left:
        size = min(_CHUNK, left)
        signs = rng.integers(0, 2, (size, len(units)), dtype=np.int8) * 2 - 1
        extreme += int(np.sum(np.abs(signs @ units) >= limit))
        left -= size
    return (extreme + 1) / (draws + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust a family of p-values by Holm's step-down rule; nan entries stay nan and do not count."""
    adjusted = [float("nan")] * len(p_values)
    order = sorted((i for i, p in enumerate(p_values) if p == p), key=lambda i: p_values[i])
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


def bootstrap_interval(
    values: Floats, *, level: float = 0.95, draws: int = BOOTSTRAP_DRAWS
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of the mean over units (n,), seeded; (nan, nan) for fewer than
    two units.
    """
    units = np.asarray(values, dtype=np.float64)
    if len(units) < 2:
        return float("nan"), float("nan")
    rng = np.random.Generator(np.random.PCG64(_BOOTSTRAP_SEED + len(units)))
    means = units[rng.integers(0, len(units), (draws, len(units)))].mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
