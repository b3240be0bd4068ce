"""Draw labeled subsets and corrupt labels exactly as the protocol seeds them.

Knows the seeds. The same (n, repetition, rate) gives the same draw on every machine.
"""

from __future__ import annotations

import numpy as np

from engine.types import Ints, LabeledSample

_SUBSET_SEED, _PERMUTATION_SEED, _SEED_STRIDE, _CORRUPTION_SEED = 100_000, 200_000, 7_919, 9_500


def draw_subset(n_pool: int, n: int, repetition: int = 0) -> Ints:
    """Return n distinct pool rows in draw order."""
    rng = np.random.Generator(np.random.PCG64(_SUBSET_SEED + _SEED_STRIDE * n + repetition))
    return rng.choice(n_pool, n, replace=False)


def corrupt_labels(labels: Ints, n_classes: int, rate: float, repetition: int = 0) -> Ints:
    """Replace each label with probability `rate` by a uniformly drawn other class; a corrupted label always
    differs.
    """
    rng = np.random.Generator(np.random.PCG64(_CORRUPTION_SEED + round(100 * rate) + repetition))
    flip = rng.random(len(labels)) < rate
    offset = rng.integers(1, n_classes, len(labels))
    return np.where(flip, (labels + offset) % n_classes, labels)


def control_permutation(n: int, repetition: int = 0) -> Ints:
    """Return the permutation of the labeled sample that the permutation control uses."""
    return np.random.Generator(
        np.random.PCG64(_PERMUTATION_SEED + _SEED_STRIDE * n + repetition)
    ).permutation(n)


def draw_sample(
    labels: Ints, n: int, *, n_classes: int, rate: float = 0.0, repetition: int = 0
) -> LabeledSample:
    """Draw S of size n from fully labeled pool `labels` (N,), corrupted at `rate`."""
    rows = draw_subset(len(labels), n, repetition)
    return LabeledSample(rows, corrupt_labels(labels[rows], n_classes, rate, repetition))
