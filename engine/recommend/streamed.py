"""The hypotheses of a family too large to hold: references and expected losses a block of rows at a time, on
every core.

Sees arrays only, in memory or on disk. Logarithms and references are float32 here, sums over the pool
float64; tests show that no pick moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.rules.decoding import Decoder
from engine.rules.streaming import blocks, side_by_side
from engine.types import Floats, Ints

BIG = 1 << 26  # probabilities of a family from which nothing of its size is held
_BLOCK = 1 << 22  # reference entries held at a time by each core
_NEGLIGIBLE = 1e-9  # candidates of less health than this add nothing to a contest

# teacher (n, K), the candidates' probabilities (n, K) one by one -> log references (C, n, K)
Blend = Callable[[Floats, Iterator[Floats]], Floats]


@dataclass(frozen=True, eq=False)
class StreamedReferences:
    """Log probabilities of the references, (C, N, K), made for the rows that are asked for: `[which,
    rows]`.
    """

    teacher: Floats
    candidates: Any
    blend: Blend
    n_references: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.n_references, self.candidates.shape[1], self.candidates.shape[2]

    def __getitem__(self, key: tuple[Any, Any]) -> Floats:
        which, rows = key
        teacher = np.asarray(self.teacher[rows], dtype=np.float64)
        decoder = Decoder(self.candidates.dtype, 0.0)
        buffer = np.empty(teacher.shape)
        probs = (decoder.floored(self.candidates[m, rows], buffer) for m in range(len(self.candidates)))
        return np.asarray(self.blend(teacher, probs)[which])

    def blocks(self) -> Iterator[Floats]:
        """Yield the references of all rows in their order, (C, n, K) each."""
        for rows in blocks(*self.shape[1:]):
            yield self[:, rows]


@dataclass(frozen=True, eq=False)
class Weighed:
    """What the pass over the pool needs of the hypotheses (H,), and the candidates' health (M,)."""

    ref: Ints
    temperature: Floats
    bias: Floats  # (H, K)
    prior: Floats
    health: Floats
    floor: float


@dataclass(frozen=True, eq=False)
class PoolLosses:
    """expected (H, M): mean loss of each candidate if a hypothesis held; contest (N,): how far a label would
    move healthy candidates apart.
    """

    expected: Floats
    contest: Floats


def streamed_losses(references: StreamedReferences, hypotheses: Weighed) -> PoolLosses:
    """Make one pass over blocks of rows; the result does not depend on the number of cores."""
    n_images, n_classes = references.shape[1:]
    parts = list(blocks(n_images, n_classes, max(n_classes, _BLOCK // len(hypotheses.ref))))
    work = _Pass(references, hypotheses, parts, [np.empty(0)] * len(parts), np.empty(n_images))
    side_by_side(work.run, len(parts), references.candidates.shape[0] * n_images * n_classes)
    return PoolLosses(expected=np.sum(work.totals, axis=0) / n_images, contest=work.contest)


@dataclass(frozen=True, eq=False)
class _Pass:
    references: StreamedReferences
    hypotheses: Weighed
    parts: Sequence[slice]
    totals: list[Floats]  # (H, M) of each block
    contest: Floats
    _own = threading.local()

    def run(self, index: int) -> None:
        """Do one block, in buffers that its thread keeps: fresh ones would cost more than filling them."""
        rows, h = self.parts[index], self.hypotheses
        n, n_classes = rows.stop - rows.start, self.references.shape[2]
        beliefs = self._buffer("beliefs", (len(h.ref), n, n_classes))
        losses = self._buffer("losses", (len(self.references.candidates), n, n_classes))
        _soften(self.references[:, rows], h, beliefs)
        self._losses(rows, losses)
        flat = losses.reshape(len(losses), -1)
        self.totals[index] = (beliefs.reshape(len(beliefs), -1) @ flat.T).astype(np.float64)
        belief = (h.prior.astype(np.float32) @ beliefs.reshape(len(beliefs), -1)).reshape(n, n_classes)
        self.contest[rows] = _contest(belief, losses, h.health / h.health.sum())

    def _buffer(self, name: str, shape: tuple[int, int, int]) -> Floats:
        size = int(np.prod(shape))
        kept: Floats | None = getattr(self._own, name, None)
        if kept is None or kept.size < size:
            kept = np.empty(size, dtype=np.float32)
            setattr(self._own, name, kept)
        return kept[:size].reshape(shape)

    def _losses(self, rows: slice, out: Floats) -> None:
        candidates = self.references.candidates
        decoder = Decoder(candidates.dtype, self.hypotheses.floor, np.float32)
        floored = self._buffer("floored", (1, *out.shape[1:]))[0]
        for m in range(len(out)):
            probs = candidates[m, rows]
            decoder.logs(probs, decoder.floored(probs, floored), out[m])
            np.negative(out[m], out=out[m])


def _soften(log_refs: Floats, hypotheses: Weighed, out: Floats) -> None:
    """Write softmax(log_refs / T + bias) of every hypothesis, (H, n, K), to `out`."""
    # Less the row's largest, which a softmax does not see: no exponential can then vanish for a whole row.
    shifted = (log_refs - log_refs.max(axis=2, keepdims=True)).astype(np.float32)
    bias = hypotheses.bias.astype(np.float32)
    ones = np.ones(out.shape[2], dtype=np.float32)
    for h, (ref, temperature) in enumerate(zip(hypotheses.ref, hypotheses.temperature, strict=True)):
        own = out[h]
        np.multiply(shifted[ref], np.float32(1 / temperature), out=own)
        own += bias[h]
        np.exp(own, out=own)
        own *= (1 / (own @ ones))[:, None]


def _contest(belief: Floats, losses: Floats, share: Floats) -> Floats:
    """Return (n,) what `contested` returns, without an array of the losses' size: the variance of the
    contrasts is written as mean square less squared mean.
    """
    mean, square = np.zeros(belief.shape), np.zeros(belief.shape)
    means = np.zeros((len(losses), len(belief)))
    scratch = np.empty_like(losses[0])
    kept = np.flatnonzero(share > _NEGLIGIBLE)
    for m in kept:
        mean += np.multiply(losses[m], np.float32(share[m]), out=scratch)
        scratch *= losses[m]
        square += scratch
        means[m] = np.einsum("ik,ik->i", losses[m], belief)
    spread = np.einsum("ik,ik->i", square - mean**2, belief)
    moved = means[kept] - np.einsum("ik,ik->i", mean, belief)
    return np.asarray(np.sqrt(np.maximum(spread - share[kept] @ moved**2, 0)))
