"""One pass over blocks of a family's rows makes every statistic that was asked for, a candidate per thread.

Knows blocks, precision and threads. Holds two blocks and one Gram matrix a thread, never a whole family.
Knows nothing of rules or picks.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from engine.rules.decoding import Decoder
from engine.types import Floats, Ints, Progress

STATISTICS = ("distortion", "by-row", "correlation", "spectrum")
_BLOCK = 1 << 19  # values at a time: a few MB, which stays in the processor's cache
_MANY_CLASSES = 2000  # a (K, K) matrix of float64 takes 32 MB there, 3 GB at 20,000
_SERIAL = 1 << 22  # values below which threads cost more than they save
# Values from which logarithms and row sums of a float32 family are taken in float32, never sums over blocks;
# so are the products of a Gram matrix of which only trace and norm are asked for, while its spectrum needs
# all digits. Rounding is then 1e-7 of a value; tests show that no pick moves.
BIG = 1 << 26


@dataclass(frozen=True, eq=False)
class ByRow:
    """confidence, neg_entropy and predicted (class), all (M, N)."""

    confidence: Floats
    neg_entropy: Floats
    predicted: Ints


@dataclass(frozen=True, eq=False)
class Correlation:
    """Trace and Frobenius norm of QᵀQ, both (M,)."""

    trace: Floats
    norm: Floats


class _Gram:
    """QᵀQ (K, K) summed over blocks of rows in float64; products within a block are of type `dtype`.

    With thousands of classes and fewer rows it is QQᵀ (N, N) instead, which has the same trace, norm and
    singular values and does not fill the memory.
    """

    def __init__(self, n_images: int, n_classes: int, dtype: type[np.floating[Any]]) -> None:
        self._rows: list[Floats] | None = [] if n_images < n_classes and n_classes > _MANY_CLASSES else None
        self._sum = np.zeros((n_classes, n_classes) if self._rows is None else (0, 0))
        self._block = np.empty(self._sum.shape, dtype)

    def add(self, floored: Floats) -> None:
        if self._rows is not None:
            self._rows.append(floored.astype(np.float64))
            return
        own = floored.astype(self._block.dtype, copy=False)
        self._sum += np.matmul(own.T, own, out=self._block)

    @cached_property
    def total(self) -> Floats:
        """The matrix, once every block was added."""
        if self._rows is None:
            return self._sum
        whole = np.concatenate(self._rows)
        return np.asarray(whole @ whole.T)


@dataclass(frozen=True, eq=False)
class _Pass:
    """What one pass knows and where it leaves its results; threads write to entries of their own."""

    teacher: Floats  # (N, K) floored, in the precision of the pass
    teacher_term: float  # Σ q_f log q_f
    candidates: Any  # (M, N, K)
    wanted: frozenset[str]
    decoder: Decoder
    distortion: Floats
    by_row: ByRow
    correlation: Correlation
    spectrum: Floats

    def measure(self, m: int) -> None:
        """Stream one candidate's rows and leave its statistics."""
        n_images, n_classes = self.candidates.shape[1:]
        with_logs = bool(self.wanted & {"distortion", "by-row"})
        with_gram = bool(self.wanted & {"correlation", "spectrum"})
        # Fresh blocks would be fetched from the system each time, at ten times the cost of filling them.
        values, logarithms = (self._buffer() for _ in range(2))
        cross, gram = 0.0, _Gram(n_images, n_classes, self._gram_type) if with_gram else None
        for rows in blocks(n_images, n_classes):
            probs = self.candidates[m, rows]
            floored = self.decoder.floored(probs, values)
            if with_logs:
                logs = self.decoder.logs(probs, floored, logarithms)
                if "distortion" in self.wanted:
                    cross += dot(self.teacher[rows], logs)
                if "by-row" in self.wanted:
                    self._rows(m, rows, floored, logs)
            if gram is not None:
                gram.add(floored)
        self.distortion[m] = (self.teacher_term - cross) / n_images
        if gram is not None:
            self.correlation.trace[m] = np.trace(gram.total)
            self.correlation.norm[m] = np.linalg.norm(gram.total)
            if "spectrum" in self.wanted:
                self.spectrum[m] = singular_value_sum(lambda: self._exact_blocks(m), gram.total, n_images)

    @property
    def _gram_type(self) -> type[np.floating[Any]]:
        is_coarse = "spectrum" not in self.wanted and math.prod(self.candidates.shape) >= BIG
        return np.float32 if is_coarse else np.float64

    def _buffer(self) -> Floats:
        n_images, n_classes = self.candidates.shape[1:]
        return np.empty((next(blocks(n_images, n_classes)).stop, n_classes), self.decoder.dtype)

    def _rows(self, m: int, rows: slice, floored: Floats, logs: Floats) -> None:
        classes = np.argmax(floored, axis=1)
        self.by_row.predicted[m, rows] = classes
        self.by_row.confidence[m, rows] = floored[np.arange(len(classes)), classes]
        self.by_row.neg_entropy[m, rows] = np.einsum("ik,ik->i", floored, logs)

    def _exact_blocks(self, m: int) -> Iterator[Floats]:
        for rows in blocks(*self.candidates.shape[1:]):
            yield self.decoder.floored(self.candidates[m, rows], self._buffer()).astype(
                np.float64, copy=False
            )


def stream(
    teacher: Floats,
    candidates: Floats,
    wanted: Collection[str],
    *,
    floor: float,
    on_progress: Progress | None = None,
) -> dict[str, Any]:
    """Make the wanted of STATISTICS in one pass over teacher (N, K) and candidates (M, N, K).

    `on_progress` counts candidates. The result does not depend on the number of threads.
    """
    n_candidates, n_images, n_classes = candidates.shape
    n_values = n_candidates * n_images * n_classes
    is_single = n_values >= BIG and candidates.dtype == np.float32
    decoder = Decoder(candidates.dtype, floor, np.float32 if is_single else np.float64)
    floored_teacher, term = _floored_teacher(teacher, floor, decoder.dtype, "distortion" in wanted)
    by_row = (n_candidates, n_images if "by-row" in wanted else 0)
    work = _Pass(
        teacher=floored_teacher,
        teacher_term=term,
        candidates=candidates,
        wanted=frozenset(wanted),
        decoder=decoder,
        distortion=np.empty(n_candidates),
        by_row=ByRow(np.empty(by_row), np.empty(by_row), np.empty(by_row, dtype=np.int32)),
        correlation=Correlation(np.empty(n_candidates), np.empty(n_candidates)),
        spectrum=np.empty(n_candidates),
    )
    side_by_side(work.measure, n_candidates, n_values, on_progress)
    made = dict(zip(STATISTICS, (work.distortion, work.by_row, work.correlation, work.spectrum), strict=True))
    if "spectrum" in wanted:  # the Gram matrix was made anyway
        wanted = {*wanted, "correlation"}
    return {name: made[name] for name in wanted}


def blocks(n_images: int, n_classes: int, n_values: int = _BLOCK) -> Iterator[slice]:
    """Yield slices of rows that hold about n_values values each."""
    step = max(1, n_values // n_classes)
    for start in range(0, n_images, step):
        yield slice(start, min(start + step, n_images))


def side_by_side(
    work: Callable[[int], None], n: int, n_values: int, on_progress: Progress | None = None
) -> None:
    """Call work(0..n-1) on every core if n_values are many, in this thread if they are few."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_values < _SERIAL or cores == 1:
        _count(map(work, range(n)), n, on_progress)
        return
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # numpy releases the interpreter lock, so threads are enough; the linear algebra keeps to one core each.
    with threadpool_limits(1), ThreadPoolExecutor(cores) as threads:
        try:
            _count(threads.map(work, range(n)), n, on_progress)
        except BaseException:
            threads.shutdown(cancel_futures=True)
            raise


def _count(results: Iterable[None], total: int, on_progress: Progress | None) -> None:
    for done, _ in enumerate(results, start=1):
        if on_progress is not None:
            on_progress(done, total)


def dot(left: Floats, right: Floats) -> float:
    """Return Σ left∘right; float32 rows are summed in float64."""
    if left.dtype == np.float64:
        return float(np.vdot(left, right))
    return float(np.einsum("ik,ik->i", left, right).sum(dtype=np.float64))


def row_tops(probs: Floats) -> tuple[Ints, Floats]:
    """Return each row's class of the largest probability and that probability, both (N,), a block at a
    time.
    """
    classes, top = np.empty(len(probs), np.int64), np.empty(len(probs))
    decoder, buffer = Decoder(probs.dtype, 0.0), np.empty((next(blocks(*probs.shape)).stop, probs.shape[1]))
    for rows in blocks(*probs.shape):
        values = decoder.floored(probs[rows], buffer)
        classes[rows] = np.argmax(values, axis=1)
        top[rows] = values[np.arange(len(values)), classes[rows]]
    return classes, top


def class_shares(probs: Floats) -> Floats:
    """Return the mean of the rows, (K,), a block at a time."""
    total = sum(np.asarray(probs[rows], dtype=np.float64).sum(axis=0) for rows in blocks(*probs.shape))
    return np.asarray(total / len(probs))


def _floored_teacher(
    teacher: Floats, floor: float, dtype: np.dtype[Any], is_wanted: bool
) -> tuple[Floats, float]:
    """Return q_f (N, K) in this precision and Σ q_f log q_f, summed as the candidates' terms are."""
    if not is_wanted:
        return np.empty((0, 0), dtype), 0.0
    floored, term = np.empty(teacher.shape, dtype), 0.0
    for rows in blocks(*teacher.shape):
        np.maximum(np.asarray(teacher[rows], dtype=dtype), dtype.type(floor), out=floored[rows])
        term += dot(floored[rows], np.log(floored[rows]))
    return floored, term


def singular_value_sum(exact_blocks: Callable[[], Iterator[Floats]], gram: Floats, n_images: int) -> float:
    """Return the sum of the singular values of the (N, K) matrix whose blocks of rows are given, with its
    Gram matrix.
    """
    if n_images >= len(gram):
        eigenvalues = np.linalg.eigvalsh(gram)
        # Squaring halves the digits: tiny singular values (collapsed candidates) drown in rounding, so take
        # them from P itself.
        if eigenvalues[0] >= 1e-12 * eigenvalues[-1]:
            return float(np.sqrt(eigenvalues).sum())
    return float(np.linalg.svd(_triangle(exact_blocks()), compute_uv=False).sum())


def _triangle(parts: Iterator[Floats]) -> Floats:
    """Return a matrix with the same singular values as the stacked parts: the only one, or R of its QR, block
    by block.
    """
    whole = np.asarray(next(parts))
    for part in parts:
        whole = np.concatenate([whole, part])
        if len(whole) > 4 * whole.shape[1]:  # fewer, larger steps: most of each would be spent on R again
            whole = np.asarray(np.linalg.qr(whole, mode="r"))
    return whole
