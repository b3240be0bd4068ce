"""Which images to label next: those whose label would decide between the contenders, and how many labels
halve the doubt.

Sees arrays only. The rows are drawn, not ranked, in proportion to how contested they are; `calibrate` gives
every stratum of the pool its share again, so the chosen images do not stand for all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.recommend.calibrated import Calibrated, calibrate, posterior_belief
from engine.recommend.doubt import recommendation
from engine.recommend.hypotheses import CalibratedPool, contested
from engine.recommend.streamed import StreamedReferences
from engine.types import Bools, Floats, Ints, LabeledSample

MAX_CONTENDERS = 8
EXPLORE = 0.3  # share of the draw that ignores the contest, so that no part of the pool goes unseen
HORIZONS = (5, 10, 20, 40, 80, 160)
_CONTINUATIONS, _ROWS_AT_ONCE, _VALUES_AT_ONCE = 3, 2048, 1 << 24
_CONSIDERED = 1 << 21  # probabilities of a model in those rows of a large family that are drawn from


@dataclass(frozen=True, eq=False)
class NextLabels:
    """rows (k,) to label next, most contested first; contest (k,) relative to the pool's average; contenders
    by their chance to be best.

    worth is how many random labels one of these replaces, at best: the ratio of variances of the contenders'
    gaps.
    """

    rows: Ints
    contest: Floats
    contenders: tuple[int, ...]
    worth: float


def label_next(
    pool: CalibratedPool, verdict: Calibrated, best: Floats, labeled: Ints, k: int, *, seed: int = 0
) -> NextLabels:
    """Choose k unlabeled rows. `best` (M,) holds each candidate's chance to be best (nan = not admissible),
    `labeled` the rows done.
    """
    chances = np.nan_to_num(np.asarray(best, dtype=np.float64))
    contenders = np.argsort(-chances, kind="stable")[:MAX_CONTENDERS]
    contenders = contenders[chances[contenders] > 0]
    seen = _considered(pool, np.setdiff1d(np.arange(pool.candidates.shape[1]), labeled), seed)
    contest = _contest(pool, verdict, contenders, chances[contenders], seen)
    mean = contest.mean() if len(seen) else 1.0
    relative = contest / mean if mean > 0 else np.ones(len(contest))
    weights = (1 - EXPLORE) * relative + EXPLORE
    rng = np.random.default_rng(seed + len(labeled))
    # Exponential races draw without replacement in proportion to the weights (Efraimidis and Spirakis, 2006).
    drawn = np.argsort(rng.exponential(size=len(seen)) / weights, kind="stable")[:k]
    drawn = drawn[np.argsort(-contest[drawn], kind="stable")]
    worth = np.mean(relative**2) / np.mean(relative**2 / weights) if len(seen) else 1.0
    return NextLabels(
        rows=seen[drawn],
        contest=relative[drawn],
        contenders=tuple(int(m) for m in contenders),
        worth=float(worth),
    )


def _considered(pool: CalibratedPool, free: Ints, seed: int) -> Ints:
    """Return the unlabeled rows to draw from: all of them, or some drawn at random where going through the
    whole pool would take minutes.
    """
    most = max(1, _CONSIDERED // pool.n_classes)
    if not isinstance(pool.log_refs, StreamedReferences) or len(free) <= most:
        return free
    return np.sort(np.random.default_rng(seed).choice(free, most, replace=False))


def _contest(
    pool: CalibratedPool, verdict: Calibrated, contenders: Ints, chances: Floats, rows: Ints
) -> Floats:
    """Return how contested each of these rows is between the contenders, (n,)."""
    parts: list[Floats] = [np.empty(0)]
    n_candidates, _, n_classes = pool.candidates.shape
    step = max(1, min(_ROWS_AT_ONCE, _VALUES_AT_ONCE // (n_candidates * n_classes)))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        belief = posterior_belief(pool, verdict, some)
        losses = np.concatenate([pool.losses(some, slice(m, m + 1)) for m in contenders])
        parts.append(contested(belief, losses, chances))
    return np.concatenate(parts)


def labels_to_halve(
    pool: CalibratedPool,
    verdict: Calibrated,
    sample: LabeledSample,
    *,
    admissible: Bools | None = None,
    seed: int = 0,
) -> int | None:
    """Return about how many more random labels halve the expected regret of the pick; None if even 160 (or
    all) would not.

    Continuations are imagined: a hypothesis and an error rate are drawn from the posterior, they label
    further rows, and the rule is run again on old and imagined labels together.
    """
    pick, doubt = recommendation(verdict, admissible=admissible)
    now = doubt.regret[pick]
    if now <= 0:
        return 0
    rng = np.random.default_rng(seed)
    free = rng.permutation(np.setdiff1d(np.arange(pool.candidates.shape[1]), sample.rows))
    imagined = [_imagine(pool, verdict, free[: HORIZONS[-1]], rng) for _ in range(_CONTINUATIONS)]
    for more in HORIZONS:
        if more > len(free):
            return None
        later = []
        for labels in imagined:
            extended = LabeledSample(
                np.concatenate([sample.rows, free[:more]]), np.concatenate([sample.labels, labels[:more]])
            )
            pick, doubt = recommendation(calibrate(pool, extended, verdict.trust), admissible=admissible)
            later.append(doubt.regret[pick])
        if np.mean(later) <= now / 2:
            return more
    return None


def _imagine(pool: CalibratedPool, verdict: Calibrated, rows: Ints, rng: np.random.Generator) -> Ints:
    """Draw labels (n,) for rows from one hypothesis and error rate of the posterior, errors towards any
    class.
    """
    drawn = rng.choice(verdict.weights.size, p=verdict.weights.ravel())
    rate_index, hypothesis = np.unravel_index(drawn, verdict.weights.shape)
    probs = pool.references(rows, verdict.bias, np.array([hypothesis]))[0]
    labels = (
        (rng.random(len(rows))[:, None] > np.cumsum(probs, axis=1)).sum(axis=1).clip(0, pool.n_classes - 1)
    )
    flip = rng.random(len(rows)) < verdict.rates[rate_index]
    return np.asarray(
        np.where(flip, (labels + rng.integers(1, pool.n_classes, len(rows))) % pool.n_classes, labels)
    )
