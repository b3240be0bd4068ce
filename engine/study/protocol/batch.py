"""The paper's supervised rules over many labeled samples of one size at once: the coefficient search as array
arithmetic.

Sees arrays only. Picks and coefficients equal `engine.rules.supervised.select` to the bit: sums run in the
same order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.rules.sampling import control_permutation
from engine.rules.supervised import SUPERVISED, SampleEvidence, n_folds
from engine.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class PoolTerms:
    """What does not depend on a draw, once per family and floor: all (N, M), so that drawn rows lie first.

    teacher_part = -⟨δ, p_f⟩ and predicted = argmax_c p_g(c).
    """

    teacher_part: Floats
    predicted: Ints


@dataclass(frozen=True, eq=False)
class Draws:
    """B labeled samples of n rows each: rows (B, n) of the pool and labels (B, n) as observed.

    repetitions (B,) seed the permutation control; rates (B,) say how the labels were corrupted.
    """

    rows: Ints
    labels: Ints
    repetitions: Ints
    rates: Floats

    @property
    def n(self) -> int:
        return int(self.rows.shape[1])


@dataclass(frozen=True, eq=False)
class Picks:
    """What one rule chose on each of B draws: candidates (B,) and coefficients (B,), nan where the rule has
    none.
    """

    candidates: Ints
    coefficients: Floats


def pool_terms(teacher: Floats, candidates: Floats, *, floor: float) -> PoolTerms:
    """Make one pass over teacher (N, K) and candidates (M, N, K), a candidate at a time."""
    p_teacher = np.maximum(np.asarray(teacher, dtype=np.float64), floor)
    shape = (candidates.shape[1], candidates.shape[0])
    teacher_part, predicted = np.empty(shape), np.empty(shape, dtype=np.int64)
    for m in range(len(candidates)):
        p = np.maximum(np.asarray(candidates[m], dtype=np.float64), floor)
        predicted[:, m] = np.argmax(p, axis=1)
        teacher_part[:, m] = -np.einsum("ik,ik->i", p - p_teacher, p_teacher)
    return PoolTerms(teacher_part, predicted)


def batch_evidence(
    teacher: Floats, candidates: Floats, terms: PoolTerms, draws: Draws, *, floor: float, control: bool = True
) -> SampleEvidence:
    """Gather the per-example terms of every draw as (n, B, M) arrays.

    The permutation control alone needs whole predictive rows, hence most of the time: `control` False leaves
    its term at 0.
    """
    rows, labels = draws.rows.T, draws.labels.T
    gathered = np.asarray(candidates[:, rows, labels], dtype=np.float64)
    p_candidates = np.maximum(np.ascontiguousarray(np.moveaxis(gathered, 0, 2)), floor)
    p_teacher = np.maximum(np.asarray(teacher[rows, labels], dtype=np.float64), floor)
    return SampleEvidence(
        loss=-np.log(p_candidates),
        correct=terms.predicted[rows] == labels[:, :, None],
        label_part=p_candidates - p_teacher[:, :, None],
        teacher_part=terms.teacher_part[rows],
        permuted=_permuted(teacher, candidates, draws, floor) if control else np.zeros_like(p_candidates),
    )


def _permuted(teacher: Floats, candidates: Floats, draws: Draws, floor: float) -> Floats:
    """⟨δ, (e_y - p_f)∘π⟩ as (n, B, M). Consecutive draws of the same rows (other label errors) share their
    δ.
    """
    at = np.arange(draws.n)
    out = np.empty((draws.n, len(draws.rows), len(candidates)))
    previous: Ints | None = None
    for b, rows in enumerate(draws.rows):
        if previous is None or not np.array_equal(rows, previous):
            p_teacher = np.maximum(np.asarray(teacher[rows], dtype=np.float64), floor)
            delta = np.maximum(np.asarray(candidates[:, rows], dtype=np.float64), floor)
            delta -= p_teacher
            previous = rows
        residual = -p_teacher
        residual[at, draws.labels[b]] += 1
        permutation = control_permutation(draws.n, int(draws.repetitions[b]))
        out[:, b] = np.einsum("mik,ik->mi", delta, residual[permutation]).T
    return out


def batch_select(rule_name: str, evidence: SampleEvidence, anchor: Floats, usable: Ints) -> Picks:
    """Run one supervised rule on every draw.

    evidence holds (n, B, M) terms, anchor (B, M) the score to shrink toward (one row a draw), usable the
    indices of the admissible candidates. One label returns the anchor's pick.
    """
    rule = SUPERVISED[rule_name]
    # `take` lays its result out row by row; plain indexing would not, and numpy would then sum in another
    # order.
    term = np.take(rule.term(evidence), usable, axis=2)
    # The mean over a contiguous last axis sums in pairs, as `select` does for the final score.
    supervised = np.mean(np.ascontiguousarray(np.moveaxis(term, 0, 2)), axis=2)
    if rule.grid is None:
        return Picks(usable[np.argmin(supervised, axis=1)], np.full(len(supervised), np.nan))
    base = anchor[:, usable]
    if len(term) > 1:
        coefficients = _search(base, term, np.take(evidence.loss, usable, axis=2), rule.grid)
    else:
        coefficients = np.zeros(len(base))
    return Picks(usable[np.argmin(base + coefficients[:, None] * supervised, axis=1)], coefficients)


def _search(base: Floats, term: Floats, loss: Floats, grid: Floats) -> Floats:
    """Algorithm 1 for every draw: base (B, M), term and loss (n, B, M) -> coefficient (B,)."""
    n, n_draws = term.shape[:2]
    held_out = []
    for fold in np.array_split(np.arange(n), n_folds(n)):
        start, stop = int(fold[0]), int(fold[-1]) + 1
        # Sums along the first axis run row after row, as `search_coefficient` sums the rows it keeps.
        kept = np.concatenate([term[:start], term[stop:]])
        mean = np.add.reduce(kept, axis=0) / len(kept)
        picks = np.argmin(base[:, None] + grid[:, None] * mean[:, None], axis=2)
        charge = np.add.reduce(loss[start:stop], axis=0) / (stop - start)
        held_out.append(charge[np.arange(n_draws)[:, None], picks])
    return np.asarray(grid[np.argmin(np.mean(held_out, axis=0), axis=1)])
