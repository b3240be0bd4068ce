"""The frontier against a brute-force loop."""

from __future__ import annotations

import numpy as np
import pytest

from engine.decide.frontier import frontier


@pytest.mark.parametrize("seed", range(4))
def test_nobody_on_the_frontier_is_beaten(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 6, (3, 20)).astype(float)
    counts[1, 4] = np.nan
    found = frontier(*counts)
    for i in range(20):
        own = counts[:, i]
        beaten = any(
            (counts[:, j] <= own).all() and (counts[:, j] < own).any()
            for j in range(20)
            if not np.isnan(counts[:, j]).any()
        )
        assert found[i] == (not beaten and not np.isnan(own).any())
