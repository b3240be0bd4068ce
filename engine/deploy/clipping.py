"""A kernel at a given number of bits with the clip of least squared error, channel by channel.

Knows one kernel at a time and its weights. Knows nothing of layers' importance or of images.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.family.quantize import Quantized, channel_rows, from_channel_rows, max_code
from engine.types import Floats, Kernel

_FINE, _COARSE = np.linspace(1.0, 0.3, 15), np.linspace(1.0, 0.7, 5)  # shares of a channel's largest weight
_BLOCK = 1 << 17  # weights tried at a time, so that they stay in the processor's cache


@dataclass(frozen=True, eq=False)
class Clipped:
    """A kernel's integers and how far they are from its weights: the mean squared error."""

    quantized: Quantized
    error: float


def clipped(weights: Floats, kernel: Kernel, bits: int) -> Clipped:
    """Quantize a kernel per output channel, each with the clip whose squared error is least."""
    rows = np.ascontiguousarray(channel_rows(np.asarray(weights, np.float32), kernel))
    scales = np.empty(len(rows), np.float32)
    codes = np.empty(rows.shape, np.int8)
    total = 0.0
    step = max(1, _BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        scales[block] = best_scales(rows[block], bits)
        codes[block] = nearest_codes(rows[block], scales[block], bits)
        total += float(((codes[block] * scales[block][:, None] - rows[block]) ** 2).sum())
    made = Quantized(codes=from_channel_rows(codes, kernel), scales=scales, bits=bits, kernel=kernel)
    return Clipped(made, total / rows.size)


def nearest_codes(rows: NDArray[np.float32], scales: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Return the nearest code of every weight, (channels, fan_in), as floats."""
    top = max_code(bits)
    levels: NDArray[np.float32] = np.rint(rows / scales[:, None])
    np.clip(levels, -top, top, out=levels)
    return levels


def best_scales(
    rows: NDArray[np.float32], bits: int, weight: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return one scale a row of (channels, fan_in); `weight`, (fan_in,) or one a row, says how much each
    input counts. A row of zeros keeps scale 1.
    """
    top = np.abs(rows).max(axis=1) / np.float32(max_code(bits))
    top = np.where(top > np.finfo(np.float32).tiny, top, np.float32(1))
    best, least = top.copy(), np.full(len(rows), np.inf)
    for share in _FINE if bits <= 4 else _COARSE:
        scales = (top * np.float32(share)).astype(np.float32)
        gaps = (nearest_codes(rows, scales, bits) * scales[:, None] - rows) ** 2
        errors = gaps.sum(axis=1) if weight is None else (gaps * weight).sum(axis=1)
        better = errors < least
        best[better], least[better] = scales[better], errors[better]
    return best
