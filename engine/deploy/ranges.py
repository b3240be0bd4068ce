"""Ranges of a graph's values on calibration images: one pass, one histogram a value, every method from it.

Knows sessions and histograms. Knows nothing of labels, of integers in a graph, or of weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.family.kinds import RANGE_METHODS, RangeMethod
from engine.teacher.apart import Run, UnrunnableError, Way, opened
from engine.teacher.reason import reason
from engine.teacher.runtime import FAILURES, excess
from engine.types import Floats, UserError

_BINS = 4096  # over [-limit, limit]; the limit is between once and twice the largest magnitude seen
_PER_IMAGE = 8192  # values of one image that enter a histogram, evenly spaced; min and max see them all
_SHRINK = np.linspace(1.0, 0.2, 81)  # of the range, tried for the least squared error
_LEVELS = 255


@dataclass(frozen=True)
class Range:
    """The interval that 8 bits are spread over; it always holds zero."""

    low: float
    high: float

    @classmethod
    def around(cls, low: float, high: float) -> Range:
        """Widen to hold zero, which padding and Relu need to be exact."""
        return cls(min(float(low), 0.0), max(float(high), 0.0))


@dataclass(eq=False)
class Histogram:
    """Counts of a value's numbers in `_BINS` equal bins around zero; the bins double when a number falls
    outside.
    """

    counts: NDArray[np.int64]
    limit: float
    low: float
    high: float

    @classmethod
    def empty(cls) -> Histogram:
        return cls(np.zeros(_BINS, np.int64), 0.0, np.inf, -np.inf)

    def add(self, values: Floats) -> None:
        """Take in the numbers of a batch, (n, ...): all for the extremes, an even share for the counts."""
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        self._grow(max(abs(self.low), abs(self.high)))
        flat = values.reshape(-1)
        sample = flat[:: max(1, flat.size // (_PER_IMAGE * len(values)))]
        if self.limit > 0:
            scaled = (sample + np.float32(self.limit)) * np.float32(_BINS / (2 * self.limit))
            bins = np.minimum(scaled.astype(np.int32), _BINS - 1)
            self.counts += np.bincount(bins, minlength=_BINS)

    def _grow(self, magnitude: float) -> None:
        if self.limit == 0:
            self.limit = magnitude
        while magnitude > self.limit:
            pairs = self.counts.reshape(-1, 2).sum(axis=1)
            self.counts = np.zeros(_BINS, np.int64)
            self.counts[_BINS // 4 : 3 * _BINS // 4] = pairs
            self.limit *= 2

    @property
    def centres(self) -> NDArray[np.float64]:
        """The middle of every bin, (B,)."""
        width = 2 * self.limit / _BINS
        middles: NDArray[np.float64] = -self.limit + width * (np.arange(_BINS, dtype=np.float64) + 0.5)
        return middles

    def range(self, method: RangeMethod) -> Range:
        """Return the range that a method reads off: the extremes, both tails cut at a percentile, or the
        least squared error.
        """
        if method == "minmax" or self.limit == 0:
            return Range.around(self.low, self.high)
        if method == "mse":
            return self._least_error()
        tail = (1 - float(method[1:]) / 100) / 2
        share = np.cumsum(self.counts) / self.counts.sum()
        edges = self.centres + self.limit / _BINS
        low = edges[int(np.searchsorted(share, tail))] - 2 * self.limit / _BINS
        high = edges[int(np.searchsorted(share, 1 - tail))]
        return Range.around(max(low, self.low), min(high, self.high))

    def _least_error(self) -> Range:
        occupied = self.counts > 0
        centres, counts = self.centres[occupied], self.counts[occupied]
        tried = [Range.around(self.low * f, self.high * f) for f in _SHRINK]
        return min(tried, key=lambda r: _squared_error(centres, counts, r))


def _squared_error(centres: NDArray[np.float64], counts: NDArray[np.int64], r: Range) -> float:
    step = (r.high - r.low) / _LEVELS
    if step == 0:
        return float(counts @ centres**2)
    codes = np.clip(np.rint((centres - r.low) / step), 0, _LEVELS)
    return float(counts @ (r.low + codes * step - centres) ** 2)


def collect(
    model: onnx.ModelProto, values: Sequence[str], images: NDArray[np.float32], batch: int
) -> dict[str, Histogram]:
    """Run the images (n, ...) once and return a histogram of every named value.

    Raises UserError if one of them becomes nan or infinite.
    """
    run, entry = watching(model, values), model.graph.input[0].name
    inside = [value for value in values if value != entry]
    found = {value: Histogram.empty() for value in values}
    for start in range(0, len(images), batch):
        rows = images[start : start + batch]
        outputs = dict(zip(inside, run(inside, rows), strict=True))
        for value in values:
            numbers = rows if value == entry else outputs[value]
            check_finite(numbers, value, start)
            found[value].add(numbers)
    return found


def check_finite(numbers: Floats, value: str, start: int) -> None:
    """Raise UserError if a value is nan or infinite somewhere within the images from `start` on."""
    if not np.isfinite([numbers.min(), numbers.max()]).all():  # a nan anywhere is both
        raise UserError(
            f"the teacher's value {value!r} is nan or infinite within calibration images {start} to"
            f" {start + len(numbers)}, so nothing can be fitted to it.",
            "Remove those images, or use the paper's family, which needs none.",
            option="family",
        )


def watching(model: onnx.ModelProto, values: Sequence[str]) -> Run:
    """Open the model so that it also returns the named values."""
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {item.name for item in watched.graph.output} | {item.name for item in watched.graph.input}
    for value in values:
        if value not in present:
            watched.graph.output.append(onnx.helper.make_empty_tensor_value_info(value))
    return _saying_why(opened(watched.SerializeToString(), Way()))


def _saying_why(run: Run) -> Run:
    def tried(names: Sequence[str] | None, images: NDArray[np.float32]) -> list[NDArray[Any]]:
        try:
            return run(names, images)
        except FAILURES as error:
            asked = excess(error)
            what = f"it asks for {asked}" if asked else reason(error)
            raise UnrunnableError(
                f"the teacher fails on {len(images)} calibration images: {what}.",
                "Remove those images, or check the model file.",
            ) from None

    return tried


def ranges_of(histograms: Mapping[str, Histogram], method: RangeMethod) -> dict[str, Range]:
    """Return every value's range by one method."""
    assert method in RANGE_METHODS
    return {value: histogram.range(method) for value, histogram in histograms.items()}
