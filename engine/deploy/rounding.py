"""Rounding that looks at what a layer reads: each column's error is passed on to the columns not yet rounded,
so that outputs, not weights, stay near (the GPTQ idea).

Knows one kernel and its second moments. Knows nothing of graphs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.deploy.clipping import best_scales, nearest_codes
from engine.deploy.moments import Layer
from engine.family.quantize import Quantized, channel_rows, from_channel_rows, max_code
from engine.types import Floats

_BLOCK = 128  # columns rounded before their errors are passed on to all the rest


def optimised(weights: Floats, layer: Layer, bits: int) -> Quantized:
    """Quantize one kernel per output channel, minimising the expected squared change of the layer's
    outputs.
    """
    kernel = layer.kernel
    rows = np.ascontiguousarray(channel_rows(np.asarray(weights, np.float32), kernel))
    grouped = rows.reshape(layer.groups, -1, rows.shape[1])
    importance = np.maximum(np.diagonal(layer.second, axis1=1, axis2=2), 0).astype(np.float32)
    weight = np.repeat(importance, grouped.shape[1], axis=0) if layer.groups > 1 else importance[0]
    scales = best_scales(rows, bits, weight).reshape(grouped.shape[:2])
    codes = _rounded(grouped, layer, scales, max_code(bits))
    near = nearest_codes(rows, scales.reshape(-1), bits).astype(np.int8).reshape(grouped.shape)
    # passing errors on is greedy: where a channel gains nothing by it, its nearest codes stay
    worse = _change(codes, grouped, scales, layer) > _change(near, grouped, scales, layer)
    codes[worse] = near[worse]
    return Quantized(
        codes=from_channel_rows(codes.reshape(rows.shape), kernel),
        scales=scales.reshape(-1),
        bits=bits,
        kernel=kernel,
    )


def _change(
    codes: NDArray[np.int8], rows: NDArray[np.float32], scales: NDArray[np.float32], layer: Layer
) -> NDArray[np.float32]:
    """Return the expected squared change of each output, (groups, channels)."""
    gaps = codes * scales[:, :, None] - rows
    change: NDArray[np.float32] = ((gaps @ layer.second) * gaps).sum(axis=2)
    return change


def _rounded(
    rows: NDArray[np.float32], layer: Layer, scales: NDArray[np.float32], top: int
) -> NDArray[np.int8]:
    """Round (groups, channels, fan_in) column by column, the inputs that matter most first."""
    order, factor = layer.factor
    # columns first, so that one of them is one piece of memory
    left = np.ascontiguousarray(rows[:, :, order].transpose(0, 2, 1), np.float32)
    found = np.empty(left.shape, np.int8)
    for start in range(0, left.shape[1], _BLOCK):
        stop = min(start + _BLOCK, left.shape[1])
        errors = np.empty((len(left), stop - start, left.shape[2]), np.float32)
        for column in range(start, stop):
            level = np.rint(left[:, column] / scales)
            # np.clip takes longer to find its way to these two than they take
            np.minimum(np.maximum(level, -top, out=level), top, out=level)
            found[:, column] = level
            error = (left[:, column] - level * scales) / factor[:, column, column][:, None]
            rest = slice(column + 1, stop)
            left[:, rest] -= factor[:, column, rest][:, :, None] * error[:, None, :]
            errors[:, column - start] = error
        left[:, stop:] -= factor[:, start:stop, stop:].transpose(0, 2, 1) @ errors
    codes = np.empty(rows.shape, np.int8)
    codes[:, :, order] = found.transpose(0, 2, 1)
    return codes
