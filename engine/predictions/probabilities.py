"""Are these probabilities? Every row is checked: at once where they are few, on their first use where they
are many.

Knows arrays in memory and on disk. Knows nothing of where they come from.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.predictions.stack import BIG_BYTES, Shard, Stack
from engine.types import Floats, UserError

# Rounding of stored probabilities: float16 keeps 11 bits, so a row of many classes drifts further from 1.
_ROW_SUM_TOLERANCE = {np.dtype(np.float16): 1e-2, np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-3}
_CHECK_VALUES = 1 << 20  # values checked at a time, so that a memory-mapped file never has to fit in memory
_SPREAD = 64  # rows of each candidate checked before anything else when the rest waits for its first use
# numpy converts a float16 value by value; looking each of the 65,536 up is ten times faster
_HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16).view(np.float16).astype(np.float32)


def check_probabilities(name: str, probs: Any) -> Any:
    """Return the probabilities (N, K) or (M, N, K) if they are such; a large stack on disk as a Stack whose
    rows are checked on their first use, some of them now.

    Raises UserError, in one line, at the first row that is not finite, negative or does not sum to 1.
    """
    if probs.dtype not in _ROW_SUM_TOLERANCE:
        raise UserError(
            f"{name} has dtype {probs.dtype}; float16, float32 or float64 probabilities are needed. Convert"
            " with .astype('float32')."
        )
    if isinstance(probs, np.memmap) and probs.ndim == 3 and probs.nbytes >= BIG_BYTES:
        probs = _as_stack(probs)
    if isinstance(probs, Stack):
        return _checked_later(name, probs)
    rows = probs.reshape(-1, probs.shape[-1])
    step = max(1, _CHECK_VALUES // probs.shape[-1])
    for start in range(0, len(rows), step):
        _check_block(name, rows[start : start + step], start, probs.shape)
    return probs


def _as_stack(probs: np.memmap[Any, Any]) -> Stack:
    n_candidates, n_images, n_classes = probs.shape
    step = n_images * n_classes * probs.dtype.itemsize
    path = Path(str(probs.filename))
    shards = tuple(Shard(path, probs.offset + m * step) for m in range(n_candidates))
    return Stack(shards=shards, n_images=n_images, n_classes=n_classes, dtype=probs.dtype)


def _checked_later(name: str, stack: Stack) -> Stack:
    def check(block: NDArray[Any], m: int, rows: NDArray[np.int64]) -> None:
        try:
            _check_block(name, block, 0, (len(block), stack.n_classes))
        except UserError:
            for row, values in zip(rows, block, strict=True):  # name the row by its number in the pool
                _check_block(name, values[None], m * stack.n_images + int(row), stack.shape)
            raise

    seen = np.zeros((len(stack), stack.n_images), dtype=np.bool_)
    checked = replace(stack, check=check, seen=seen)
    spread = np.unique(np.linspace(0, stack.n_images - 1, _SPREAD).astype(np.int64))
    for m in range(len(stack)):
        checked[m, spread]
    return checked


def _check_block(name: str, block: NDArray[Any], start: int, shape: tuple[int, ...]) -> None:
    tolerance = _ROW_SUM_TOLERANCE[block.dtype]
    if block.dtype == np.float16:
        values = np.take(_HALVES, np.ascontiguousarray(block).view(np.uint16), mode="clip")
    else:
        values = np.asarray(block, dtype=np.float64)
    sums = np.asarray(values @ np.ones(values.shape[1], values.dtype), dtype=np.float64)
    # One comparison per row settles the usual case: a nan or inf makes the sum fail it too.
    if not (np.all(np.abs(sums - 1) <= tolerance) and values.min() >= 0):
        _explain_bad_rows(name, values, sums, start, shape, tolerance)


def _explain_bad_rows(
    name: str, block: Floats, sums: Floats, start: int, shape: tuple[int, ...], tolerance: float
) -> None:
    finite = np.all(np.isfinite(block), axis=1)
    negative = np.any(block < 0, axis=1)
    bad = int(np.argmax(~finite | negative | ~(np.abs(sums - 1) <= tolerance)))
    where = (
        f"row {start + bad}"
        if len(shape) == 2
        else f"candidate {(start + bad) // shape[1]}, row {(start + bad) % shape[1]}"
    )
    if not finite[bad]:
        raise UserError(
            f"{name} has a non-finite value at {where}. Replace nan and inf: every entry must be a"
            " probability."
        )
    if negative[bad]:
        raise UserError(
            f"{name} has a negative value at {where}. These look like logits: apply softmax first."
        )
    raise UserError(
        f"{name} sums to {sums[bad]:.4g} instead of 1 at {where}. Give probabilities: apply softmax to"
        " logits, or normalise the rows."
    )
