"""The hypotheses of a family too large to hold: references and expected losses a block of rows at a time, on
every core.

Sees arrays only, in memory or on disk. Logarithms and references are float32 here, sums over the pool
float64; tests show that no pick moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from engine.rules.decoding import Decoder
from engine.rules.streaming import blocks, side_by_side
from engine.types import Floats, Ints, Progress

BIG = 1 << 26  # probabilities of a family from which nothing of its size is held
_BLOCK = 1 << 22  # reference entries held at a time by each core
_NEGLIGIBLE = 1e-9  # candidates of less health than this add nothing to a contest
_FEW = (
    1 << 22
)  # reference entries of single rows (labeled ones, a sample) that are kept for the next question
_SECTIONS, _SECTION_VALUES = 16, 1 << 24  # parts of the pool that sum a (K, K) matrix each, and all of these

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
    _kept: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.n_references, self.candidates.shape[1], self.candidates.shape[2]

    def __getitem__(self, key: tuple[Any, Any]) -> Floats:
        which, rows = key
        if isinstance(rows, slice):
            return np.asarray(self._made(rows)[which])
        name = np.asarray(rows).tobytes()
        found = self._kept.get(name)
        if found is None:
            found = self._made(rows)
            if found.size <= _FEW:  # the same rows are asked for once a hypothesis
                self._kept[name] = found
                for old in list(self._kept)[:-2]:
                    self._kept.pop(old, None)
        return np.asarray(found[which])

    def _made(self, rows: Any) -> Floats:
        decoder = Decoder(self.candidates.dtype, 0.0)
        teacher = np.asarray(self.teacher[rows], dtype=np.float64)
        buffer = np.empty(teacher.shape)
        probs = (decoder.floored(self.candidates[m, rows], buffer) for m in range(len(self.candidates)))
        return self.blend(teacher, probs)


@dataclass(frozen=True, eq=False)
class Weighed:
    """What the pass over the pool needs of the hypotheses (H,), the candidates' health (M,), and what each
    reference counts in the confusions (C,).
    """

    ref: Ints
    temperature: Floats
    bias: Floats  # (H, K)
    prior: Floats
    health: Floats
    confusing: Floats
    floor: float


@dataclass(frozen=True, eq=False)
class PoolLosses:
    """expected (H, M): mean loss of each candidate if a hypothesis held; contest (N,): how far a label would
    move healthy candidates apart; together (K, K): Σ rᵀf of the weighed references r and the teacher f.
    """

    expected: Floats
    contest: Floats
    together: Floats


def streamed_losses(
    references: StreamedReferences, hypotheses: Weighed, on_progress: Progress | None = None
) -> PoolLosses:
    """Make one pass over blocks of rows; the result does not depend on the number of cores. `on_progress`
    counts sections of the pool.
    """
    n_images, n_classes = references.shape[1:]
    parts = list(blocks(n_images, n_classes, max(n_classes, _BLOCK // len(hypotheses.ref))))
    # Each section sums for itself, so that threads neither wait for each other nor change the order of sums.
    n_sections = min(len(parts), max(2, min(_SECTIONS, _SECTION_VALUES // n_classes**2)))
    bounds = [len(parts) * s // n_sections for s in range(n_sections + 1)]
    sections = [parts[start:stop] for start, stop in pairwise(bounds)]
    work = _Pass(
        references=references,
        hypotheses=hypotheses,
        sections=sections,
        losses=np.zeros((n_sections, len(hypotheses.ref), len(references.candidates))),
        together=np.zeros((n_sections, n_classes, n_classes)),
        contest=np.empty(n_images),
    )
    side_by_side(work.run, n_sections, references.candidates.shape[0] * n_images * n_classes, on_progress)
    return PoolLosses(
        expected=work.losses.sum(axis=0) / n_images,
        contest=work.contest,
        together=work.together.sum(axis=0),
    )


@dataclass(frozen=True, eq=False)
class _Pass:
    references: StreamedReferences
    hypotheses: Weighed
    sections: Sequence[Sequence[slice]]
    losses: Floats  # (sections, H, M)
    together: Floats  # (sections, K, K)
    contest: Floats  # (N,)
    _own = threading.local()

    def run(self, section: int) -> None:
        for rows in self.sections[section]:
            self._block(section, rows)

    def _block(self, section: int, rows: slice) -> None:
        """Do one block, in buffers that its thread keeps: fresh ones would cost more than filling them."""
        h, n, n_classes = self.hypotheses, rows.stop - rows.start, self.references.shape[2]
        beliefs = self._buffer("beliefs", (len(h.ref), n, n_classes))
        losses = self._buffer("losses", (len(self.references.candidates), n, n_classes))
        teacher = np.asarray(self.references.teacher[rows], dtype=np.float64)
        log_refs = self.references.blend(teacher, self._read(rows, losses))
        confusing = np.einsum("c,cnk->nk", h.confusing, np.exp(log_refs))
        self.together[section] += confusing.T @ np.exp(log_refs[0])
        _soften(log_refs, h, beliefs)
        flat = losses.reshape(len(losses), -1)
        self.losses[section] += beliefs.reshape(len(beliefs), -1) @ flat.T
        belief = (h.prior.astype(np.float32) @ beliefs.reshape(len(beliefs), -1)).reshape(n, n_classes)
        self.contest[rows] = _contest(belief, losses, h.health / h.health.sum())

    def _buffer(
        self, name: str, shape: tuple[int, int, int], dtype: type[np.floating[Any]] = np.float32
    ) -> Floats:
        size = int(np.prod(shape))
        kept: Floats | None = getattr(self._own, name, None)
        if kept is None or kept.size < size:
            kept = np.empty(size, dtype=dtype)
            setattr(self._own, name, kept)
        return kept[:size].reshape(shape)

    def _read(self, rows: slice, losses: Floats) -> Iterator[Floats]:
        """Yield every candidate's probabilities, each read once, and leave its -log q (n, K) in `losses`."""
        candidates, floor = self.references.candidates, self.hypotheses.floor
        exact, single = Decoder(candidates.dtype, 0.0), Decoder(candidates.dtype, floor, np.float32)
        probs = self._buffer("probs", (1, *losses.shape[1:]), np.float64)[0]
        for m in range(len(losses)):
            stored = candidates[m, rows]
            single.logs(stored, None, losses[m])
            np.negative(losses[m], out=losses[m])
            yield exact.floored(stored, probs)


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
