"""Label-free rules: score every candidate from predictions on the unlabeled pool, and pick the best.

Sees arrays only: every rule reads the statistics that `engine.rules.statistics` gathers in one pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from engine.family.recipes import recipes_of
from engine.rules.statistics import BY_ROW, CORRELATION, DISTORTION, SPECTRUM, PoolStatistics
from engine.types import Better, Bools, Estimate, Floats, UserError

# --- the rules: each takes PoolStatistics and returns one score per candidate -----------------


def distortion(pool: PoolStatistics) -> Floats:
    """The anchor D(g) = mean_i KL(p_f ‖ p_g), in nats; 0 for the teacher itself, lower is better.

    Assumes the teacher is worth following. Stable, and nearly a constant rule: it tends to pick the least
    compressed candidate, which under shift is rarely the best one.
    """
    return pool.distortion


def avg_confidence(pool: PoolStatistics) -> Floats:
    """Mean of max_c p, from 1/K to 1; higher is better.

    Assumes confidence tracks accuracy. Fails badly when low-bit candidates collapse to one class with full
    confidence.
    """
    return np.asarray(np.mean(pool.confidence, axis=1))


def entropy(pool: PoolStatistics) -> Floats:
    """Mean of Σ p log p (negative entropy), from -log K to 0; higher is better.

    Same assumption and same failure as average confidence.
    """
    return np.asarray(np.mean(pool.neg_entropy, axis=1))


def atc_threshold(scores: Floats, agrees: Bools) -> Floats:
    """ATC's threshold per candidate from calibration scores (M, n) with the teacher's class as label (M, n).

    The published sweep walks the sorted scores and keeps the first point where false positives and false
    negatives balance best. Their difference falls by exactly one per step, so that point is the E-th smallest
    score, E being the number of disagreements; with none, the threshold stays at -inf.
    """
    n_errors = np.sum(~agrees, axis=1)
    padded = np.concatenate([np.full((len(scores), 1), -np.inf), np.sort(scores, axis=1)], axis=1)
    return np.asarray(np.take_along_axis(padded, n_errors[:, None], axis=1)[:, 0])


def _atc(pool: PoolStatistics, scores: Floats, *, strict: bool) -> Floats:
    threshold = atc_threshold(scores[:, pool.calibration_rows], pool.agrees[:, pool.calibration_rows])[
        :, None
    ]
    above = scores > threshold if strict else scores >= threshold
    return np.asarray(np.mean(above, axis=1))


def atc_mc(pool: PoolStatistics, *, strict: bool = False) -> Floats:
    """Share of pool rows whose max probability reaches a threshold t fitted on the calibration split; higher
    is better.

    Assumes the threshold carries over to the pool. Saturated candidates tie at confidence 1 and all pass
    `>=`: a collapsed candidate then scores 1. `strict` counts `>` instead and shows how much of a score is
    such a tie.
    """
    return _atc(pool, pool.confidence, strict=strict)


def atc_ne(pool: PoolStatistics, *, strict: bool = False) -> Floats:
    """As atc-mc with negative entropy in place of the max probability; higher is better. Same tie effect."""
    return _atc(pool, pool.neg_entropy, strict=strict)


def doc(pool: PoolStatistics) -> Floats:
    """agree_cal(g) + conf_pool(g) - conf_cal(g): teacher agreement corrected by the change of confidence;
    higher is better.

    Slope 1 and not clipped, so it may leave 0..1. Assumes the teacher's class is right and that a change in
    confidence is a change in accuracy; between two halves of one pool it is nearly the agreement alone.
    """
    rows = pool.calibration_rows
    agreement = np.mean(pool.agrees[:, rows], axis=1)
    return np.asarray(
        agreement + np.mean(pool.confidence, axis=1) - np.mean(pool.confidence[:, rows], axis=1)
    )


def nuclear_norm(pool: PoolStatistics) -> Floats:
    """‖P‖_* / sqrt(min(N, K)·N), at most 1; higher is better.

    Rewards predictions that are both confident and spread over classes. Assumes a class-balanced target;
    a confident, noisy but balanced candidate fools it.
    """
    n_images, n_classes = pool.candidates.shape[1:]
    return np.asarray(pool.spectrum_sum / np.sqrt(min(n_images, n_classes) * n_images))


def softmax_corr(pool: PoolStatistics) -> Floats:
    """tr(C) / (√K·‖C‖_F) with C = PᵀP/N, in 0..1; higher is better.

    The cosine between the class-correlation matrix and the identity: confident, balanced and unconfused.
    Assumes a uniform class prior; a long-tailed target lowers every honest candidate's score.
    """
    n_classes = pool.candidates.shape[2]
    return np.asarray(pool.gram_trace / (np.sqrt(n_classes) * pool.gram_norm))


def cot(pool: PoolStatistics) -> Floats:
    """1 - max_{Π1=1/N, Πᵀ1=1/K} Σ Π∘P: cost of moving predictions to uniformly drawn labels, in 0..1; lower
    is better.

    Exact (network simplex), with fractional class shares where K does not divide N. Assumes a uniform class
    prior.
    """
    return pool.transport


def precision_order(names: Sequence[str], cost: Floats | None = None) -> Floats:
    """Data-free baseline `highest-precision`: rank by bits, then channel over tensor, then no clipping, then
    float endpoints.

    Names must be candidate slugs; otherwise the most expensive candidate counts as the most precise. Higher
    is better. Raises UserError if neither names nor cost tell the precision.
    """

    recipes = recipes_of(names)
    if recipes is None:
        if cost is None:
            raise UserError(
                "highest-precision needs candidate slugs such as b4-channel-q99.5 or a `cost` array; the"
                f" first name is {names[0]!r}. Add one of them."
            )
        return np.unique(cost, return_inverse=True)[1].astype(np.float64)
    keys = [(r.bits, r.granularity != "tensor", r.percentile, r.float_ends) for r in recipes]
    order = sorted(set(keys))
    return np.array([order.index(key) for key in keys], dtype=np.float64)


@dataclass(frozen=True)
class LabelFreeRule:
    """One row of the estimator table: the score, which direction is better, what it takes for granted, and
    the statistic that a pass over the pool makes for it (None: none).
    """

    name: str
    score: Callable[[PoolStatistics], Floats]
    better: Better
    title: str
    assumes: str
    needs: str | None


LABEL_FREE: dict[str, LabelFreeRule] = {
    rule.name: rule
    for rule in (
        LabelFreeRule(
            name="distortion",
            score=distortion,
            better="lower",
            title="Teacher distortion (anchor)",
            assumes="the teacher is worth following",
            needs=DISTORTION,
        ),
        LabelFreeRule(
            name="avg-confidence",
            score=avg_confidence,
            better="higher",
            title="Average confidence",
            assumes="confident means correct",
            needs=BY_ROW,
        ),
        LabelFreeRule(
            name="entropy",
            score=entropy,
            better="higher",
            title="Negative entropy",
            assumes="confident means correct",
            needs=BY_ROW,
        ),
        LabelFreeRule(
            name="atc-mc",
            score=atc_mc,
            better="higher",
            title="ATC, max confidence",
            assumes="a confidence threshold carries over, without ties",
            needs=BY_ROW,
        ),
        LabelFreeRule(
            name="atc-ne",
            score=atc_ne,
            better="higher",
            title="ATC, negative entropy",
            assumes="an entropy threshold carries over, without ties",
            needs=BY_ROW,
        ),
        LabelFreeRule(
            name="doc",
            score=doc,
            better="higher",
            title="Difference of confidences",
            assumes="the teacher's class is right; confidence changes as accuracy does",
            needs=BY_ROW,
        ),
        LabelFreeRule(
            name="nuclear-norm",
            score=nuclear_norm,
            better="higher",
            title="Nuclear norm",
            assumes="the target's classes are about balanced",
            needs=SPECTRUM,
        ),
        LabelFreeRule(
            name="softmax-corr",
            score=softmax_corr,
            better="higher",
            title="SoftmaxCorr",
            assumes="the target's classes are about balanced",
            needs=CORRELATION,
        ),
        LabelFreeRule(
            name="cot",
            score=cot,
            better="lower",
            title="Optimal transport (COT)",
            assumes="the target's classes are about balanced",
            needs=None,
        ),
    )
}
HIGHEST_PRECISION = "highest-precision"


def passes_for(methods: Iterable[str]) -> frozenset[str]:
    """Return the statistics that these label-free rules read, for one pass to make them all."""
    needs = (LABEL_FREE[method].needs for method in methods if method in LABEL_FREE)
    return frozenset(need for need in needs if need is not None)


def pick_best(scores: Floats, better: Better, admissible: Bools | None = None) -> tuple[int, int]:
    """Return (lowest index with the best admissible score, how many share that score)."""
    usable = np.ones(len(scores), dtype=np.bool_) if admissible is None else admissible
    if not usable.any():
        raise UserError(
            "no candidate fits the memory budget. Raise the budget, or add candidates with fewer bits."
        )
    signed = np.where(usable, scores if better == "lower" else -scores, np.inf)
    best = int(np.argmin(signed))
    return best, int(np.sum(signed == signed[best]))


def estimate(rule: str, scores: Floats, better: Better, admissible: Bools | None = None) -> Estimate:
    """Turn scores into a verdict; candidates that are not admissible keep no score."""
    pick, ties = pick_best(scores, better, admissible)
    shown = scores if admissible is None else np.where(admissible, scores, np.nan)
    return Estimate(rule=rule, scores=shown, better=better, pick=pick, ties=ties)


def estimate_all(
    pool: PoolStatistics, names: Sequence[str], cost: Floats | None = None, *, admissible: Bools | None = None
) -> dict[str, Estimate]:
    """Run every label-free rule; `highest-precision` is left out when neither names nor cost tell the
    precision.
    """
    pool.need(*passes_for(LABEL_FREE))
    estimates = {
        rule.name: estimate(rule.name, rule.score(pool), rule.better, admissible)
        for rule in LABEL_FREE.values()
    }
    try:
        order = precision_order(names, cost)
    except UserError:
        return estimates
    return {**estimates, HIGHEST_PRECISION: estimate(HIGHEST_PRECISION, order, "higher", admissible)}
