"""Supervised rules: combine the anchor with a few labels, and search the coefficient by cross-validation.

Sees arrays only. Every rule is D(g) + c·mean_S φ_g for its own per-example term φ; direct validation drops D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from engine.rules.label_free import pick_best
from engine.rules.sampling import control_permutation
from engine.rules.statistics import FLOOR
from engine.types import Bools, Choice, Floats, Ints, LabeledSample

CE_GRID = np.array([0, 0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 32, 64], dtype=np.float64)  # α, as the paper
_EVIDENCE_VALUES = 1 << 23  # probabilities of the labeled sample held at a time
ALIGNMENT_GRID = np.arange(21) * 0.5  # λ = 0, 0.5, …, 10, as the paper


@dataclass(frozen=True, eq=False)
class SampleEvidence:
    """Per-example terms of the labeled sample S, one row a candidate: all arrays are (M, n).

    loss = -log q_g(y); correct = argmax hits; label_part = δ_y and teacher_part = -⟨δ, p_f⟩ with δ = p_g -
    p_f; permuted = ⟨δ, (e_y - p_f)∘π⟩ with the residual directions permuted across S.
    """

    loss: Floats
    correct: Bools
    label_part: Floats
    teacher_part: Floats
    permuted: Floats

    @property
    def n(self) -> int:
        return int(self.loss.shape[1])

    @property
    def alignment(self) -> Floats:
        return self.label_part + self.teacher_part


def sample_evidence(
    teacher: Floats, candidates: Floats, sample: LabeledSample, *, floor: float = FLOOR, repetition: int = 0
) -> SampleEvidence:
    """Gather the terms of S from teacher (N, K) and candidates (M, N, K); labels are the observed ones, right
    or wrong.
    """
    # The protocol floors teacher and candidates once, for every statistic; rows are not renormalised.
    p_teacher = np.maximum(np.asarray(teacher[sample.rows], dtype=np.float64), floor)
    residual = -p_teacher
    residual[np.arange(sample.n), sample.labels] += 1
    permutation = control_permutation(sample.n, repetition)
    # a large S is read a few candidates at a time
    at_once = max(1, _EVIDENCE_VALUES // max(p_teacher.size, 1))
    parts = [
        _evidence(p_teacher, residual[permutation], candidates[start : start + at_once], sample, floor)
        for start in range(0, len(candidates), at_once)
    ]
    if len(parts) == 1:
        return parts[0]
    columns = {
        f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(SampleEvidence)
    }
    return SampleEvidence(**columns)


def _evidence(
    p_teacher: Floats, permuted: Floats, candidates: Floats, sample: LabeledSample, floor: float
) -> SampleEvidence:
    p_candidates = np.maximum(np.asarray(candidates[:, sample.rows], dtype=np.float64), floor)
    at, delta = np.arange(sample.n), p_candidates - p_teacher
    return SampleEvidence(
        loss=-np.log(p_candidates[:, at, sample.labels]),
        correct=np.argmax(p_candidates, axis=2) == sample.labels,
        label_part=delta[:, at, sample.labels],
        teacher_part=-np.einsum("mik,ik->mi", delta, p_teacher),
        permuted=np.einsum("mik,ik->mi", delta, permuted),
    )


# --- the rules ------------------------------------------------------------------------------


@dataclass(frozen=True)
class SupervisedRule:
    """One row of the selector table: the per-example term φ to minimise and its coefficient grid (None: no
    anchor).
    """

    name: str
    term: Callable[[SampleEvidence], Floats]
    grid: Floats | None
    title: str
    assumes: str


SUPERVISED: dict[str, SupervisedRule] = {
    rule.name: rule
    for rule in (
        # mean_S -log q_g(y)
        SupervisedRule(
            name="val-ce",
            term=lambda e: e.loss,
            grid=None,
            title="Direct validation, cross-entropy",
            assumes="the labels are right and enough: at 10 to 25 the variance dominates",
        ),
        # -accuracy on S
        SupervisedRule(
            name="val-acc",
            term=lambda e: -e.correct.astype(np.float64),
            grid=None,
            title="Direct validation, accuracy",
            assumes=(
                "many labels: few of them tie most candidates, and ties go to the lowest index; tolerant of"
                " wrong labels"
            ),
        ),
        # D + α·mean_S -log q_g(y)
        SupervisedRule(
            name="ce-combo",
            term=lambda e: e.loss,
            grid=CE_GRID,
            title="CE-combo (anchored)",
            assumes=(
                "the teacher is a fair starting point; strongest up to about 25 labels, usually behind val-ce"
                " from 50 on"
            ),
        ),
        # D - λ·mean_S ⟨p_g - p_f, e_y - p_f⟩
        SupervisedRule(
            name="alignment",
            term=lambda e: -e.alignment,
            grid=ALIGNMENT_GRID,
            title="Alignment (anchored)",
            assumes=(
                "movement from the teacher toward the label is good; bounded, hence gentler under wrong"
                " labels"
            ),
        ),
        # D + λ·mean_S ⟨p_g - p_f, p_f⟩
        SupervisedRule(
            name="teacher-component",
            term=lambda e: -e.teacher_part,
            grid=ALIGNMENT_GRID,
            title="Teacher component (ablation)",
            assumes="less concentrated predictions are better; labels choose λ only",
        ),
        # D - λ·mean_S ⟨p_g - p_f, (e_y - p_f)∘π⟩
        SupervisedRule(
            name="permutation-control",
            term=lambda e: -e.permuted,
            grid=ALIGNMENT_GRID,
            title="Permutation control",
            assumes=(
                "nothing: it keeps the shrinkage and destroys the direction, so it shows what the direction"
                " adds"
            ),
        ),
    )
}


@dataclass(frozen=True, eq=False)
class CoefficientSearch:
    """Algorithm 1's outcome: the coefficient, its whole cross-validation curve and what each fold would have
    picked.
    """

    coefficient: float
    cv_losses: Floats  # (C,)
    fold_picks: Ints  # (C, F)


def n_folds(n: int) -> int:
    """Five folds from 25 labels on, otherwise leave-one-out up to ten folds.

    >>> n_folds(7), n_folds(24), n_folds(25)
    (7, 10, 5)
    """
    return 5 if n >= 25 else min(n, 10)


def search_coefficient(anchor: Floats, term: Floats, loss: Floats, grid: Floats) -> CoefficientSearch:
    """Choose the coefficient by cross-validation inside S (Algorithm 1).

    anchor (M,) is never refitted; term and loss are (M, n); grid (C,) increases. Folds are contiguous blocks
    of S in stored order. For each coefficient and fold the candidate minimising anchor + c·mean over the
    other folds is charged its mean held-out loss; fold means are averaged; the smallest coefficient wins
    ties. Needs n >= 2.
    """
    n = term.shape[1]
    if n < 2:
        raise ValueError("cross-validation needs at least two labels")
    rows = np.arange(n)
    fold_picks, held_out = [], []
    for fold in np.array_split(rows, n_folds(n)):
        kept = np.concatenate([rows[: fold[0]], rows[fold[-1] + 1 :]])
        # (C, M): all coefficients at once; argmin returns the lowest index on ties, as the protocol asks.
        picks = np.argmin(anchor + grid[:, None] * np.mean(term[:, kept], axis=1), axis=1)
        fold_picks.append(picks)
        held_out.append(np.mean(loss[:, fold], axis=1)[picks])
    cv_losses = np.mean(held_out, axis=0)
    return CoefficientSearch(float(grid[np.argmin(cv_losses)]), cv_losses, np.stack(fold_picks, axis=1))


def select(
    method: str,
    evidence: SampleEvidence,
    anchor: Floats,
    names: tuple[str, ...],
    *,
    admissible: Bools | None = None,
) -> Choice:
    """Run one supervised rule and return its Choice, with warnings left to `engine.recommend.advice`.

    evidence holds (M, n) terms of S, anchor (M,) the label-free score to shrink toward, admissible (M,) the
    budget's mask. The budget restricts the candidates and the coefficient search; S is unchanged. One label
    returns the anchor's pick.
    """
    rule = SUPERVISED[method]
    usable = np.flatnonzero(np.ones(len(anchor), dtype=np.bool_) if admissible is None else admissible)
    pick_best(anchor, "lower", admissible)  # refuses a budget that nothing fits
    term, loss = rule.term(evidence)[usable], evidence.loss[usable]
    supervised = np.mean(term, axis=1)
    if rule.grid is None:
        search, coefficient, scores = None, None, supervised
    else:
        search = search_coefficient(anchor[usable], term, loss, rule.grid) if evidence.n > 1 else None
        coefficient = search.coefficient if search else 0.0
        scores = anchor[usable] + coefficient * supervised
    parts = _Parts(usable, len(anchor))
    return _choice(
        rule,
        names,
        evidence.n,
        coefficient,
        search,
        scores=parts.spread(scores),
        anchor=None if rule.grid is None else parts.spread(anchor[usable]),
        supervised=parts.spread(supervised),
    )


@dataclass(frozen=True, eq=False)
class _Parts:
    usable: Ints
    n_candidates: int

    def spread(self, values: Floats) -> Floats:
        """Put values of the admissible candidates back at their place in the family, nan elsewhere."""
        full = np.full(self.n_candidates, np.nan)
        full[self.usable] = values
        return full


def _choice(
    rule: SupervisedRule,
    names: tuple[str, ...],
    n_labels: int,
    coefficient: float | None,
    search: CoefficientSearch | None,
    **arrays: Floats | None,
) -> Choice:
    scores = arrays["scores"]
    assert scores is not None
    pick, ties = pick_best(scores, "lower", ~np.isnan(scores))
    runner_up = runner_up_of(scores, pick)
    return Choice(
        method=rule.name,
        index=pick,
        name=names[pick],
        scores=scores,
        anchor=arrays["anchor"],
        supervised=arrays["supervised"],
        coefficient=coefficient,
        grid=rule.grid,
        cv_losses=search.cv_losses if search else None,
        n_labels=n_labels,
        ties=ties,
        runner_up=runner_up,
        margin=None if runner_up is None else float(scores[runner_up] - scores[pick]),
    )


def runner_up_of(scores: Floats, pick: int) -> int | None:
    """Return the best candidate after the pick (scores minimised, nan = not admissible), or None if it stands
    alone.
    """
    others = scores.copy()
    others[pick] = np.nan
    return None if np.isnan(others).all() else int(np.nanargmin(others))
