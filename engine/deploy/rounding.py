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

_BLOCK = 128  # columns rounded before their errors are passed on to all the rest


def optimised(weights: Floats, layer: Layer, bits: int) -> Quantized:
    """Quantize one kernel per output channel, minimising the expected squared change of the layer's
    outputs.
    """
    kernel = layer.kernel
    rows = np.ascontiguousarray(channel_rows(np.asarray(weights, np.float32), kernel))
    grouped = rows.reshape(layer.groups, -1, rows.shape[1])
    importance = np.maximum(np.diagonal(layer.second, axis1=1, axis2=2), 0).astype(np.float32)
    scales = np.stack([best_scales(g, bits, i) for g, i in zip(grouped, importance, strict=True)])
    codes = _rounded(grouped, layer, scales, max_code(bits))
    return Quantized(
        codes=from_channel_rows(codes.reshape(rows.shape), kernel),
        scales=scales.reshape(-1),
        bits=bits,
        kernel=kernel,
    )


def _rounded(
    rows: NDArray[np.float32], layer: Layer, scales: NDArray[np.float32], top: int
) -> NDArray[np.int8]:
    """Round (groups, channels, fan_in) column by column, the inputs that matter most first."""
    order, factor = layer.factor
    left = rows[:, :, order].astype(np.float32)
    codes = np.empty(rows.shape, np.int8)
    for start in range(0, left.shape[2], _BLOCK):
        stop = min(start + _BLOCK, left.shape[2])
        errors = np.empty((*left.shape[:2], stop - start), np.float32)
        for column in range(start, stop):
            level = np.clip(np.rint(left[:, :, column] / scales), -top, top)
            codes[:, :, order[column]] = level
            error = (left[:, :, column] - level * scales) / factor[:, column, column][:, None]
            rest = slice(column + 1, stop)
            left[:, :, rest] -= error[:, :, None] * factor[:, None, column, rest]
            errors[:, :, column - start] = error
        left[:, :, stop:] -= errors @ factor[:, start:stop, stop:]
    return codes
