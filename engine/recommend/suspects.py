"""Labels worth a second look: those that even evidence that takes every label as right cannot explain.

Sees arrays only. Says which labels and why; it never changes or drops one. Precision comes first: a person
who is asked to check right labels stops checking.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.recommend.calibrated import Calibrated
from engine.recommend.hypotheses import CalibratedPool
from engine.recommend.labeled import LabeledReferences
from engine.recommend.trust import error_prior
from engine.types import Bools, Floats, LabeledSample

UNLIKELY = 0.5  # only labels that are more probably wrong than right are worth a look
# And only those that the hypotheses, weighed as if every label were right, give less than this share of
# chance (a guess gives 1/K). A teacher that is sure and wrong is contradicted by many labels, so weighed like
# that it is no longer sure, and none of them is listed. At 10 % flipped labels, 9 of 10 listed ones are
# wrong.
EXCLUDED, MOST_EXCLUDED = 0.15, 0.03


@dataclass(frozen=True)
class Suspect:
    """One label to check: the probability that it is right, the class the evidence favours, and the pick
    without it if that differs.
    """

    row: int
    label: int
    probability: float
    likely: int
    pick_without: int | None


def suspects(
    pool: CalibratedPool,
    verdict: Calibrated,
    sample: LabeledSample,
    *,
    admissible: Bools | None = None,
    limit: int = 10,
) -> list[Suspect]:
    """Return the labels that are almost certainly wrong, least probable first, at most `limit`; none of those
    that were checked by an expert.
    """
    if sample.n == 0 or verdict.trust == "checked":
        return []
    references = LabeledReferences(pool, sample, verdict.bias)
    likely = references.mean(verdict.hypothesis_weights).argmax(axis=1)
    chances = chances_if_right(verdict, references.at_labels())
    excluded = chances < min(EXCLUDED / pool.n_classes, MOST_EXCLUDED)
    listed = np.flatnonzero(excluded & (verdict.belief < UNLIKELY) & (likely != sample.labels))
    if len(listed) == 0:
        return []
    picks = picks_without(pool, verdict, sample, admissible=admissible)
    now = int(np.argmin(_masked(verdict.recommended, admissible)))
    found = [
        Suspect(
            row=int(sample.rows[i]),
            label=int(sample.labels[i]),
            probability=float(verdict.belief[i]),
            likely=int(likely[i]),
            pick_without=int(picks[i]) if picks[i] != now else None,
        )
        for i in listed
    ]
    return sorted(found, key=lambda suspect: suspect.probability)[:limit]


def chances_if_right(verdict: Calibrated, at_label: Floats) -> Floats:
    """Return each label's chance (n,) under the hypotheses weighed as if no label were wrong, from at_label
    (H, n).
    """
    log_weights = np.log(at_label).sum(axis=1) + verdict.log_prior
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights @ at_label / weights.sum())


def picks_without(
    pool: CalibratedPool, verdict: Calibrated, sample: LabeledSample, *, admissible: Bools | None = None
) -> Floats:
    """Return the recommended pick after removing each label in turn, (n,).

    The hypotheses are weighed anew without the label; learned class shares and the other labels' supervised
    terms stay as they are.
    """
    n = sample.n
    prior = error_prior(verdict.trust, pool.n_classes)
    references = LabeledReferences(pool, sample, verdict.bias)
    log_likelihood = np.log(references.likelihoods(prior))  # (E, H, n)
    total = log_likelihood.sum(axis=2) + verdict.log_prior + prior.log_odds[:, None]
    weights = total[:, :, None] - log_likelihood
    weights = np.exp(weights - weights.max(axis=(0, 1)))
    anchors = (weights.sum(axis=0) / weights.sum(axis=(0, 1))).T @ verdict.expected  # (n, M)
    corrections = (verdict.residuals.sum(axis=1)[:, None] - verdict.residuals).T / max(n - 1, 1)
    return np.asarray(
        np.argmin(_masked(anchors + verdict.kappa * corrections + verdict.penalty, admissible), axis=1)
    )


def _masked(scores: Floats, admissible: Bools | None) -> Floats:
    return scores if admissible is None else np.where(admissible, scores, np.inf)
