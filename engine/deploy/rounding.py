"""Rounding that looks at what a layer reads: each column's error is passed on to the columns not yet rounded,
so that outputs, not weights, stay near (the GPTQ idea).

Knows one kernel and its second moments. Knows nothing of graphs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.deploy.clipping import best_scales
from engine.deploy.moments import Layer
from engine.family.quantize import Quantized, channel_rows, from_channel_rows, max_code
from engine.types import Floats

_DAMPING = 0.01  # of the mean second moment, added to the diagonal: few images leave it singular
_BLOCK = 128  # columns rounded before their errors are passed on to all the rest


def optimised(weights: Floats, layer: Layer, bits: int) -> Quantized:
    """Quantize one kernel per output channel, minimising the expected squared change of the layer's
    outputs.
    """
    kernel = layer.kernel
    rows = np.ascontiguousarray(channel_rows(np.asarray(weights, np.float32), kernel))
    grouped = rows.reshape(layer.groups, -1, rows.shape[1])
    codes = np.empty(grouped.shape, np.int8)
    found = np.empty(grouped.shape[:2], np.float32)
    for group, second in enumerate(layer.second):
        importance = np.maximum(np.diag(second), 0).astype(np.float32)
        found[group] = best_scales(grouped[group], bits, importance)
        codes[group] = _rounded(grouped[group], second, found[group], max_code(bits))
    return Quantized(from_channel_rows(codes.reshape(rows.shape), kernel), found.reshape(-1), bits, kernel)


def _rounded(
    rows: NDArray[np.float32], second: NDArray[np.float32], scales: NDArray[np.float32], top: int
) -> NDArray[np.int8]:
    """Round (channels, fan_in) column by column, the inputs that matter most first."""
    order = np.argsort(-np.diag(second), kind="stable")
    factor = _factor(second[np.ix_(order, order)].astype(np.float64))
    left = rows[:, order].astype(np.float64)
    codes = np.empty(rows.shape, np.int8)
    wide = scales.astype(np.float64)
    for start in range(0, left.shape[1], _BLOCK):
        stop = min(start + _BLOCK, left.shape[1])
        errors = np.empty((len(left), stop - start))
        for column in range(start, stop):
            level = np.clip(np.rint(left[:, column] / wide), -top, top)
            codes[:, order[column]] = level
            error = (left[:, column] - level * wide) / factor[column, column]
            left[:, column + 1 : stop] -= np.outer(error, factor[column, column + 1 : stop])
            errors[:, column - start] = error
        left[:, stop:] -= errors @ factor[start:stop, stop:]
    return codes


def _factor(second: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper Cholesky factor of the inverse of the damped second moments."""
    n = len(second)
    damping = max(_DAMPING * float(np.trace(second)) / n, 1e-12)
    inverse = np.linalg.inv(second + damping * np.eye(n))
    lower = np.asarray(np.linalg.cholesky((inverse + inverse.T) / 2), np.float64)
    # inverse = lower @ lower.T; the upper factor U with inverse = U.T @ U is its transpose
    return np.ascontiguousarray(lower.T)
