"""The weight quantizer, in plain NumPy: scales from a clip percentile, integer codes, and dense bit packing.

Knows one kernel at a time. Knows nothing of graphs, families or images; no data is involved in any number
here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.types import Floats, Granularity, Kernel, Recipe, UserError

T = TypeVar("T", bound=np.generic)

QUANTIZER_VERSION = "1"  # part of every store key: raise it whenever a code or a scale could change

_CACHED = 1 << 15  # weights rounded at a time, so that their float64 copies stay in the processor's cache
_BLOCK = 1 << 20  # codes handled at a time (a multiple of 8, so that blocks end on whole bytes)


@dataclass(frozen=True, eq=False)
class Quantized:
    """A kernel as integers: weight = code * scale.

    codes int8 has the kernel's shape. scales float32 has one entry per row of `channel_rows(codes, kernel)`,
    or exactly one for the whole tensor. `kernel.axes` are the axes the scales run along: the output channels,
    or the last axis alone when the recipe says `lastaxis`.
    """

    codes: NDArray[np.int8]
    scales: NDArray[np.float32]
    bits: int
    kernel: Kernel


def max_code(bits: int) -> int:
    """Return the largest code of the symmetric range, 2^(bits-1) - 1.

    >>> max_code(2), max_code(8)
    (1, 127)
    """
    return (1 << (bits - 1)) - 1


# --- rows: one per output channel ---------------------------------------------------------


def _is_grouped_transpose(kernel: Kernel) -> bool:
    return kernel.op == "ConvTranspose" and kernel.groups > 1


def _front_axes(kernel: Kernel) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the (possibly split) shape and the axis order that brings output channels to the front."""
    if _is_grouped_transpose(kernel):
        inputs, *rest = kernel.shape
        shape = (kernel.groups, inputs // kernel.groups, *rest)
        return shape, (0, 2, 1, *range(3, len(shape)))
    inner = tuple(axis for axis in range(len(kernel.shape)) if axis not in kernel.axes)
    return kernel.shape, (*kernel.axes, *inner)


def n_output_channels(kernel: Kernel) -> int:
    """Return how many output channels the kernel has, that is, how many scales a per-channel recipe needs."""
    channels = math.prod(kernel.shape[axis] for axis in kernel.axes)
    return channels * kernel.groups if _is_grouped_transpose(kernel) else channels


def channel_rows(array: NDArray[T], kernel: Kernel) -> NDArray[T]:
    """Return `array` (kernel.shape) as a matrix (n_output_channels, fan_in); a view where the layout allows
    it.
    """
    shape, order = _front_axes(kernel)
    return array.reshape(shape).transpose(order).reshape(n_output_channels(kernel), -1)


def from_channel_rows(rows: NDArray[T], kernel: Kernel) -> NDArray[T]:
    """Undo `channel_rows`: return a contiguous array of kernel.shape."""
    shape, order = _front_axes(kernel)
    moved = rows.reshape([shape[axis] for axis in order])
    return np.ascontiguousarray(moved.transpose(np.argsort(order)).reshape(kernel.shape))


def scale_kernel(kernel: Kernel, granularity: Granularity) -> Kernel:
    """Return the kernel with `axes` set to those the scales run along under this granularity."""
    if granularity == "lastaxis":
        return replace(kernel, axes=(len(kernel.shape) - 1,), groups=1)
    return kernel


def _scale_rows(
    weights: NDArray[np.float32], kernel: Kernel, granularity: Granularity
) -> NDArray[np.float32]:
    """Return the weights as a matrix with one row per scale."""
    if granularity == "tensor":
        return weights.reshape(1, -1)
    return channel_rows(weights, scale_kernel(kernel, granularity))


def n_scales(kernel: Kernel, granularity: Granularity) -> int:
    """Return how many scales the kernel needs under this granularity."""
    return 1 if granularity == "tensor" else n_output_channels(scale_kernel(kernel, granularity))


# --- clip thresholds ----------------------------------------------------------------------


def _row_percentiles(rows: NDArray[np.float32], levels: tuple[float, ...]) -> NDArray[np.float64]:
    """Return percentiles of |rows| along axis 1, shape (len(levels), n_rows), as `numpy.percentile` defines
    them.

    Only the order statistics that the levels touch are located (float32), then interpolated in float64:
    the same numbers as sorting a float64 copy, for a fraction of the time and memory.
    """
    magnitudes = np.abs(rows)
    last = magnitudes.shape[1] - 1
    positions = [last * (level / 100.0) for level in levels]
    below = [int(np.floor(position)) for position in positions]
    above = [min(index + 1, last) for index in below]
    magnitudes.partition(sorted({*below, *above}), axis=1)
    result = np.empty((len(levels), rows.shape[0]), np.float64)
    for i, position in enumerate(positions):
        low, high = (magnitudes[:, index].astype(np.float64) for index in (below[i], above[i]))
        t = position - below[i]
        # numpy interpolates from the nearer end; so do we, to agree to the last bit
        result[i] = low + (high - low) * t if t < 0.5 else high - (high - low) * (1 - t)
    return result


@dataclass(eq=False)
class Percentiles:
    """Clip thresholds of a teacher's kernels, each located once for all bit widths and endpoint options.

    Finding percentiles is the expensive part of quantizing; a family of 72 asks for the same six of each
    kernel.
    """

    weights: Mapping[str, Floats]
    levels: tuple[float, ...]
    _found: dict[tuple[str, Granularity], NDArray[np.float64]] = field(default_factory=dict, repr=False)

    @classmethod
    def for_recipes(cls, weights: Mapping[str, Floats], recipes: Iterable[Recipe]) -> Percentiles:
        """Prepare for every percentile that the recipes use."""
        return cls(weights, tuple(sorted({recipe.percentile for recipe in recipes})))

    def thresholds(self, kernel: Kernel, recipe: Recipe) -> NDArray[np.float64]:
        """Return percentile_q(|w|), one per scale; raise UserError if the kernel holds nan or infinity."""
        if recipe.percentile not in self.levels:
            raise ValueError(f"percentile {recipe.percentile} is not among the prepared {self.levels}")
        key = (kernel.name, recipe.granularity)
        if key not in self._found:
            rows = _scale_rows(_checked(self.weights[kernel.name], kernel), kernel, recipe.granularity)
            self._found[key] = _row_percentiles(rows, self.levels)
        found: NDArray[np.float64] = self._found[key][self.levels.index(recipe.percentile)]
        return found


def _checked(weights: Floats, kernel: Kernel) -> NDArray[np.float32]:
    array = np.asarray(weights, np.float32)
    if array.shape != kernel.shape:
        raise ValueError(f"kernel {kernel.name} has shape {kernel.shape}, its weights {array.shape}")
    if array.size == 0 or not np.isfinite(array).all():
        raise UserError(
            f"kernel {kernel.name!r} is empty or holds nan or infinity, so it has no scale. Load a teacher"
            " with finite weights."
        )
    return array


# --- codes --------------------------------------------------------------------------------


def quantize(
    weights: Floats, kernel: Kernel, recipe: Recipe, percentiles: Percentiles | None = None
) -> Quantized:
    """Quantize one kernel by one recipe: s = percentile_q(|w|) / (2^(b-1) - 1), codes =
    round-half-even(clip(w) / s).

    weights has kernel.shape. The stored scale is s rounded to float32; codes come from s in float64, so that
    exact ties round as the formula says. A row whose threshold is 0 (all zeros, or all but its clipped tail)
    keeps scale 1. Raises UserError if the kernel holds nan or infinity.
    """
    array = _checked(weights, kernel)
    found = (
        percentiles if percentiles is not None else Percentiles({kernel.name: array}, (recipe.percentile,))
    )
    exact = found.thresholds(kernel, recipe) / max_code(recipe.bits)
    # a threshold so small that its float32 scale vanishes stands for zeros as well
    alive = exact.astype(np.float32) > 0
    scales = np.where(alive, exact, 1.0)
    scaled = scale_kernel(kernel, recipe.granularity)
    # one scale: any rows do
    layout = replace(kernel, axes=(0,), groups=1) if recipe.granularity == "tensor" else scaled
    codes = _round_rows(channel_rows(array, layout), np.where(alive, scales, np.inf), max_code(recipe.bits))
    return Quantized(
        codes=from_channel_rows(codes, layout),
        scales=scales.astype(np.float32),
        bits=recipe.bits,
        kernel=scaled,
    )


def _round_rows(rows: NDArray[np.float32], scales: NDArray[np.float64], top: int) -> NDArray[np.int8]:
    """Return round-half-even(rows / scales), clipped to +-top; an infinite scale gives zeros."""
    divisors = np.broadcast_to(scales, len(rows))[:, None]
    codes = np.empty(rows.shape, np.int8)
    step = max(1, _CACHED // rows.shape[1])
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        levels = rows[block].astype(np.float64)
        levels /= divisors[block]
        np.rint(levels, out=levels)
        codes[block] = np.clip(levels, -top, top, out=levels)
    return codes


def dequantize(quantized: Quantized) -> NDArray[np.float32]:
    """Return code * scale in float32, shape kernel.shape: the weights that are judged and the ones that are
    exported.
    """
    codes, scales = quantized.codes, quantized.scales
    if len(scales) == 1:
        weights: NDArray[np.float32] = np.multiply(codes, scales[0], dtype=np.float32)
        return weights
    rows = channel_rows(codes, quantized.kernel).astype(np.float32)
    rows *= scales[:, None]
    return from_channel_rows(rows, quantized.kernel)


# --- packing ------------------------------------------------------------------------------


def pack(codes: NDArray[np.int8], bits: int) -> NDArray[np.uint8]:
    """Pack codes (any shape, read in C order) into ceil(n * bits / 8) bytes: two's complement, low bits
    first.

    Raises ValueError if a code does not fit in `bits`.
    """
    flat = np.ascontiguousarray(codes, np.int8).reshape(-1)
    if flat.size and not (-(1 << (bits - 1)) <= int(flat.min()) and int(flat.max()) < 1 << (bits - 1)):
        raise ValueError(f"a code does not fit in {bits} bits")
    if bits == 8:
        return flat.view(np.uint8).copy()
    blocks = [flat[start : start + _BLOCK].view(np.uint8) for start in range(0, flat.size, _BLOCK)]
    packed = [
        np.packbits(np.unpackbits(block[:, None], axis=1, count=bits, bitorder="little"), bitorder="little")
        for block in blocks
    ]
    return np.concatenate(packed) if packed else np.empty(0, np.uint8)


def unpack(packed: NDArray[np.uint8], bits: int, n: int) -> NDArray[np.int8]:
    """Undo `pack`: return the first n codes, shape (n,). Raises ValueError if `packed` has not the length n
    needs.
    """
    if packed.size != -(-n * bits // 8):
        raise ValueError(f"{n} codes of {bits} bits need {-(-n * bits // 8)} bytes, got {packed.size}")
    if bits == 8:
        return packed.view(np.int8).copy()
    codes = np.empty(n, np.int8)
    block_bytes = _BLOCK * bits // 8
    for start in range(0, n, _BLOCK):
        count = min(_BLOCK, n - start)
        first = start // _BLOCK * block_bytes
        planes = np.unpackbits(
            packed[first : first + block_bytes], count=count * bits, bitorder="little"
        ).reshape(count, bits)
        raw = np.packbits(planes, axis=1, bitorder="little")[:, 0].view(np.int8)
        # the arithmetic shift brings the sign back
        codes[start : start + count] = (raw << (8 - bits)) >> (8 - bits)
    return codes
