"""What the target's true class probabilities might be: the hypotheses of the calibrated rule, before any
label is seen.

Sees arrays only. A hypothesis is a reference (the teacher, the teacher with healthy candidates, or the
consensus of all candidates), its temperature T and what is assumed of the class shares: the reference's own,
equal ones, or shares to be learned from the labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from engine.recommend.channel import SMALLEST, confusions_of
from engine.recommend.streamed import BIG, PoolLosses, StreamedReferences, Weighed, streamed_losses
from engine.rules.label_free import softmax_corr
from engine.rules.statistics import FLOOR, PoolStatistics
from engine.types import Bools, Floats, Ints, Progress

TEMPERATURES = np.exp(np.linspace(np.log(0.35), np.log(8.0), 13))
LOG_T_MEAN, LOG_T_SD = 0.1, 0.7  # the best T of most development families lay between 0.6 and 2.4
# Class shares: how far they are evened out (0 = the reference's own), whether labels may move them, and prior
# odds.
SHARES = ((0.0, False, 1.0), (1.0, False, 3.0), (0.5, True, 1.0))
STATED_SHARES = ((1.0, False, 1.0),)  # where somebody knows them: those alone, in place of equal ones
TEACHER, MIXED, CONSENSUS = 0, 1, 2  # the references, in the order of `log_refs`
HEALTH = 0.15  # nats of distortion at which a candidate counts 1/e in the mixed reference
# Nats of distortion between the teacher and its nearest other candidate at which kinship is 1/e. A family
# made from the teacher has near copies of it (0.01 and less on all development families), peers do not (0.08
# and more).
KIN = 0.05
# Prior odds of the consensus beside 1 for each reference that follows the teacher, among children and among
# peers.
CONSENSUS_ODDS = (0.3, 4.0)
# Labels at which the supervised correction gets half its weight, among children and among peers: the losses
# of peers differ more, so labels tell sooner.
KAPPA_LABELS = (40.0, 5.0)
FEW_ROWS = (
    512  # rows on which learned class shares change the expected losses; the rest of the pool follows them
)
COSTLY = ("bias", "confusion", "expected", "contest", "few_losses")  # what a pass over the pool makes
_FEW_VALUES = 1 << 18  # fewer rows where classes are many: each takes M + 2H times its classes of memory
_COPY = 1e-6  # distortion below which a candidate is the teacher itself
_BALANCE_ROWS, _BALANCE_STEPS, _STEP = 2000, 15, 0.8
_BALANCE_VALUES = 1 << 24  # reference entries balanced at a time
_BLOCK = 1 << 22  # reference entries held at a time


@dataclass(frozen=True, eq=False)
class CalibratedPool:
    """What the rule needs of a family, computed once: H hypotheses, M candidates, N images, K classes.

    log_refs (C, N, K) are the references' log probabilities; a hypothesis sharpens reference `ref` by
    `temperature` and adds `bias` (H, K), which is only a start where it is `learned` (H,). expected (H, M) is
    the mean pool loss of each candidate if the hypothesis held. log_prior (H,). kinship is 1 if the
    candidates were made from the teacher and 0 if they are its peers. stated (K,) are the class shares
    where somebody knew them. confusion (K, K) is what a label becomes if similar classes are confused.
    contest (N,) says how far one label on that image would move healthy candidates apart. shape (M,) is how
    far a candidate's SoftmaxCorr lies below the family's best. few (at most FEW_ROWS,) are rows spread over
    the pool, few_losses (M, len(few) * K) the losses there.
    """

    candidates: Floats
    log_refs: Floats | StreamedReferences
    ref: Ints
    temperature: Floats
    evenness: Floats
    learned: Bools
    bias: Floats
    log_prior: Floats
    kinship: float
    stated: Floats | None
    confusion: Floats
    expected: Floats
    contest: Floats
    shape: Floats
    few: Ints
    few_losses: Floats
    floor: float

    @property
    def n_classes(self) -> int:
        return int(self.candidates.shape[2])

    @property
    def kappa_labels(self) -> float:
        """Labels at which the supervised correction gets half its weight."""
        return self.kinship * KAPPA_LABELS[0] + (1 - self.kinship) * KAPPA_LABELS[1]

    def references(
        self, rows: Ints | slice, bias: Floats | None = None, which: Ints | slice = slice(None)
    ) -> Floats:
        """Return hypotheses' class probabilities on some rows, (H, n, K); `which` picks some hypotheses,
        `bias` replaces all theirs.
        """
        given = self.bias if bias is None else bias
        return soften(self.log_refs[:, rows][self.ref[which]], self.temperature[which], given[which])

    def losses(self, rows: Ints | slice, which: Ints | slice = slice(None)) -> Floats:
        """Return -log q of every class on some rows, (M, n, K), of all candidates or those of `which`; one of
        the two is a slice.
        """
        found = np.array(self.candidates[which, rows], dtype=np.float64)
        np.maximum(found, self.floor, out=found)
        np.log(found, out=found)
        return np.negative(found, out=found)


def calibrated_pool(
    teacher: Floats,
    pool: PoolStatistics,
    *,
    floor: float = FLOOR,
    class_shares: Floats | None = None,
    made: Mapping[str, Floats] | None = None,
    on_progress: Progress | None = None,
) -> CalibratedPool:
    """Prepare the rule for teacher (N, K) and the pool's candidates (M, N, K).

    `class_shares` (K,) are the target's, where they are known: no other assumption on them is then made.
    `made` gives the fields COSTLY of an earlier preparation of the same pool; then nothing is read.
    `on_progress` counts sections of the pool, for a family too large to hold.
    """
    log_refs, kin = _references(teacher, pool, floor), kinship(pool.distortion)
    grid = _grid(kin, SHARES if class_shares is None else STATED_SHARES)
    n_images, empty, corr = log_refs.shape[1], np.empty(0), softmax_corr(pool)
    few = _few_rows(n_images, log_refs.shape[2])
    prepared = CalibratedPool(
        candidates=pool.candidates,
        log_refs=log_refs,
        ref=grid.ref,
        temperature=grid.temperature,
        evenness=grid.evenness if class_shares is None else grid.evenness * _alike(class_shares),
        learned=grid.learned,
        bias=empty,
        log_prior=grid.log_prior,
        kinship=kin,
        stated=class_shares,
        confusion=empty,
        expected=empty,
        contest=empty,
        shape=corr.max() - corr,
        few=few,
        few_losses=empty,
        floor=floor,
    )
    if made is not None:
        return replace(
            prepared,
            bias=made["bias"],
            confusion=made["confusion"],
            expected=made["expected"],
            contest=made["contest"],
            few_losses=made["few_losses"],
        )
    balanced = log_refs[:, :: max(1, n_images // _BALANCE_ROWS)]
    bias = _balance(balanced, grid, class_shares)
    found = _pool_losses(replace(prepared, bias=bias), np.exp(-pool.distortion / HEALTH), on_progress)
    return replace(
        prepared,
        bias=bias,
        confusion=confusions_of(found.together),
        expected=found.expected,
        contest=found.contest,
        few_losses=prepared.losses(few).reshape(len(pool.candidates), -1),
    )


def kinship(distortion: Floats) -> float:
    """Return how surely the candidates were made from the teacher, 0 to 1, from their distortion (M,).

    The nearest candidate that is not the teacher itself decides: exp(-distortion / KIN).
    """
    others = distortion[distortion > _COPY]
    return float(np.exp(-others.min() / KIN)) if len(others) else 1.0


@dataclass(frozen=True, eq=False)
class _Grid:
    """The hypotheses (H,) without their class biases."""

    ref: Ints
    temperature: Floats
    evenness: Floats
    learned: Bools
    log_prior: Floats


def _alike(shares: Floats) -> float:
    """Return how far classes of these shares are equally frequent, 0 to 1: rarest over most frequent."""
    return float(shares.min() / shares.max())


def _grid(kin: float, assumed: tuple[tuple[float, bool, float], ...]) -> _Grid:
    """Return every reference with every assumption on class shares and every temperature, and their prior."""
    odds = (1.0, 1.0, kin * CONSENSUS_ODDS[0] + (1 - kin) * CONSENSUS_ODDS[1])
    rows = [
        (ref, temperature, evenness, learned, odds[ref] * share_odds)
        for ref in (TEACHER, MIXED, CONSENSUS)
        for evenness, learned, share_odds in assumed
        for temperature in TEMPERATURES
    ]
    refs, temperatures, evennesses, learneds, all_odds = (
        np.array(column) for column in zip(*rows, strict=True)
    )
    log_prior = -0.5 * ((np.log(temperatures) - LOG_T_MEAN) / LOG_T_SD) ** 2 + np.log(all_odds)
    return _Grid(
        ref=refs,
        temperature=temperatures,
        evenness=evennesses,
        learned=learneds,
        log_prior=log_prior - np.log(np.exp(log_prior).sum()),
    )


def _few_rows(n_images: int, n_classes: int) -> Ints:
    wanted = min(FEW_ROWS, max(64, _FEW_VALUES // n_classes))
    if n_images <= wanted:
        return np.arange(n_images)
    return np.unique(np.linspace(0, n_images - 1, wanted).astype(np.int64))


def _references(teacher: Floats, pool: PoolStatistics, floor: float) -> Floats | StreamedReferences:
    """Return log probabilities (3, N, K): the teacher, its mixture with candidates weighed by
    exp(-distortion), and the consensus, the mean of all candidates. Those of a large family are made when
    rows are asked for.
    """
    weights = np.exp(-pool.distortion / HEALTH)

    def blend(own: Floats, candidates: Iterable[Floats]) -> Floats:
        mixed, consensus = own.copy(), np.zeros_like(own)
        for weight, probs in zip(weights, candidates, strict=True):
            consensus += probs
            if weight > 1e-4:
                mixed += weight * probs
        stacked = np.stack([own, mixed / (1 + weights.sum()), consensus / len(weights)])
        return np.asarray(np.log(np.maximum(stacked, floor)))

    if math.prod(pool.candidates.shape) >= BIG:
        return StreamedReferences(teacher, pool.candidates, blend, n_references=3)
    return blend(np.asarray(teacher, dtype=np.float64), pool.candidates)


def soften(log_refs: Floats, temperature: Floats, bias: Floats) -> Floats:
    """Return softmax(log_refs / T + bias), (H, n, K), for log_refs (H, n, K), temperature (H,) and bias (H,
    K).
    """
    # Log probabilities are floored and at most 0: less the largest bias, no exponential can overflow and none
    # vanishes, so rows need no maximum of their own.
    logits = log_refs * (1 / temperature)[:, None, None]
    logits += (bias - bias.max(axis=1, keepdims=True))[:, None]
    np.exp(logits, out=logits)
    logits *= (1 / (logits @ np.ones(logits.shape[2])))[:, :, None]
    return logits


def _balance(log_refs: Floats, grid: _Grid, stated: Floats | None) -> Floats:
    """Return the class biases (H, K) that move each hypothesis' class shares towards equal ones, or towards
    stated ones (K,), as far as `evenness` says; log_refs (C, n, K) are the references on some rows. A few
    hypotheses at a time.
    """
    n_classes = log_refs.shape[2]
    wanted = np.ones(n_classes) if stated is None else stated
    bias = np.zeros((len(grid.ref), n_classes))
    moving = np.flatnonzero(grid.evenness)
    at_once = max(1, _BALANCE_VALUES // log_refs[0].size)
    for start in range(0, len(moving), at_once):
        some = moving[start : start + at_once]
        refs = log_refs[grid.ref[some]]
        bias[some] = _balanced(refs, grid.temperature[some], grid.evenness[some], wanted)
    return bias


def _balanced(log_refs: Floats, temperature: Floats, evenness: Floats, wanted: Floats) -> Floats:
    probs = soften(log_refs, temperature, np.zeros((len(log_refs), log_refs.shape[2])))
    own = np.maximum(probs.mean(axis=1), SMALLEST)
    target = own ** (1 - evenness[:, None]) * wanted ** evenness[:, None]
    target /= target.sum(axis=1, keepdims=True)
    factors = np.ones_like(target)
    for _ in range(_BALANCE_STEPS):
        # class share = factor_k · mean of p_ik / Σ_c factor_c p_ic
        norm = np.einsum("hik,hk->hi", probs, factors)
        share = factors * np.einsum("hik,hi->hk", probs, 1 / norm) / probs.shape[1]
        factors *= (target / np.maximum(share, SMALLEST)) ** _STEP
        factors /= factors.sum(axis=1, keepdims=True)
    return np.asarray(np.log(factors))


def _pool_losses(pool: CalibratedPool, health: Floats, on_progress: Progress | None) -> PoolLosses:
    """Return the expected losses, the contest and the references' classes beside the teacher's, over blocks
    of rows.
    """
    prior, confusing = np.exp(pool.log_prior), np.array([0.0, pool.kinship, 1 - pool.kinship])
    if isinstance(pool.log_refs, StreamedReferences):
        weighed = Weighed(
            ref=pool.ref,
            temperature=pool.temperature,
            bias=pool.bias,
            prior=prior,
            health=health,
            confusing=confusing,
            floor=pool.floor,
        )
        return streamed_losses(pool.log_refs, weighed, on_progress)
    n_images, n_classes = pool.candidates.shape[1:]
    step = max(1, _BLOCK // (len(pool.ref) * n_classes))
    total, contest = np.zeros((len(pool.ref), len(pool.candidates))), np.empty(n_images)
    for start in range(0, n_images, step):
        rows = slice(start, min(start + step, n_images))
        references, losses = pool.references(rows), pool.losses(rows)
        total += references.reshape(len(references), -1) @ losses.reshape(len(losses), -1).T
        contest[rows] = contested(np.einsum("h,hnk->nk", prior, references), losses, health)
    probs = np.exp(pool.log_refs)
    together = np.einsum("c,cnk->nk", confusing, probs).T @ probs[TEACHER]
    return PoolLosses(expected=total / n_images, contest=contest, together=together)


def contested(belief: Floats, losses: Floats, chances: Floats) -> Floats:
    """Return how far a label is expected to move the candidates apart, (n,): the standard deviation of their
    losses' contrast.

    belief (n, K) are the class probabilities; losses (M, n, K); chances (M,) say which candidates matter.
    Labeling rows in proportion to it tells most about the gaps between candidates for a given number of
    labels (Neyman's allocation).
    """
    share = chances / chances.sum()
    contrast = losses - np.einsum("m,mnk->nk", share, losses)
    contrast -= np.einsum("mnk,nk->mn", contrast, belief)[:, :, None]
    return np.asarray(np.sqrt(np.einsum("m,mnk,nk->n", share, contrast**2, belief)))
