"""Stored probabilities as floored numbers and their logarithms, as fast as the stored type allows.

Knows float16, float32 and float64. Knows nothing of models or rules.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.types import Floats


class Decoder:
    """Turns blocks of stored probabilities into max(p, floor) and its logarithm, in float64 or float32.

    A float16 has only 65,536 values, so both come from tables: ten times faster than converting it and taking
    a logarithm.
    """

    def __init__(
        self, stored: np.dtype[Any], floor: float, dtype: type[np.floating[Any]] = np.float64
    ) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._floor = self.dtype.type(floor)
        self._tables = _tables(self.dtype, floor) if stored == np.float16 else None

    def floored(self, probs: NDArray[Any], out: Floats) -> Floats:
        """Write max(p, floor) to the first rows of `out` and return them."""
        kept = out[: len(probs)]
        if self._tables is not None:
            return np.take(self._tables[0], _codes(probs), mode="clip", out=kept)
        return np.asarray(np.maximum(probs, self._floor, out=kept, dtype=self.dtype))

    def logs(self, probs: NDArray[Any], floored: Floats | None, out: Floats) -> Floats:
        """Write log max(p, floor) to the first rows of `out` and return them; `floored` is what the other
        method returned, or None if it was not asked.
        """
        kept = out[: len(probs)]
        if self._tables is not None:
            return np.take(self._tables[1], _codes(probs), mode="clip", out=kept)
        return np.asarray(np.log(self.floored(probs, kept) if floored is None else floored, out=kept))


def _codes(probs: NDArray[Any]) -> NDArray[np.uint16]:
    return np.ascontiguousarray(probs).view(np.uint16)


@lru_cache(maxsize=8)
def _tables(dtype: np.dtype[Any], floor: float) -> tuple[Floats, Floats]:
    """max(p, floor) and its logarithm for every float16, by its bits."""
    every = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    with np.errstate(
        invalid="ignore", divide="ignore"
    ):  # half of them are negative or no number; checked files hold none
        values = np.maximum(every.astype(np.float64), floor)
        return values.astype(dtype), np.log(values).astype(dtype)
