"""Which candidates nobody beats on all counts at once. Knows numbers only."""

from __future__ import annotations

import numpy as np

from engine.types import Bools, Floats


def frontier(*counts: Floats) -> Bools:
    """Return which candidates are on the frontier of several counts (M,) each, lower is better, shape (M,).

    One is beaten if another is at least as good in every count and better in one. A candidate with a count
    that is not known (nan) is neither on the frontier nor beats anyone.

    >>> frontier(np.array([1.0, 2.0, 2.0]), np.array([2.0, 1.0, 3.0])).tolist()
    [True, True, False]
    """
    table = np.column_stack([np.asarray(count, np.float64) for count in counts])
    known: Bools = ~np.any(np.isnan(table), axis=1)
    as_good = np.all(table[:, None] <= table[None], axis=2) & known[:, None]
    better = np.any(table[:, None] < table[None], axis=2)
    return np.asarray(known & ~np.any(as_good & better, axis=0), np.bool_)
