"""Labels worth a second look: those the evidence contradicts, and those that alone decide the choice.

Sees arrays only. Says which labels and why; it never changes or drops one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.recommend.calibrated import Calibrated, at_labels, likelihoods
from engine.recommend.hypotheses import CalibratedPool
from engine.types import Bools, Floats, LabeledSample

UNLIKELY = 0.5  # labels less probable than this are worth a look


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
    """Return labels that are probably wrong or whose removal changes the pick, least probable first, at most
    `limit`.
    """
    if sample.n == 0:
        return []
    picks = picks_without(pool, verdict, sample, admissible=admissible)
    now = int(np.argmin(_masked(verdict.recommended, admissible)))
    likely = np.einsum(
        "h,hnk->nk", verdict.hypothesis_weights, pool.references(sample.rows, verdict.bias)
    ).argmax(axis=1)
    found = [
        Suspect(
            int(row),
            int(label),
            float(verdict.belief[i]),
            int(likely[i]),
            int(picks[i]) if picks[i] != now else None,
        )
        for i, (row, label) in enumerate(zip(sample.rows, sample.labels, strict=True))
        if (verdict.belief[i] < UNLIKELY and likely[i] != label) or picks[i] != now
    ]
    return sorted(found, key=lambda suspect: suspect.probability)[:limit]


def picks_without(
    pool: CalibratedPool, verdict: Calibrated, sample: LabeledSample, *, admissible: Bools | None = None
) -> Floats:
    """Return the recommended pick after removing each label in turn, (n,).

    The hypotheses are weighed anew without the label; learned class shares and the other labels' supervised
    terms stay as they are.
    """
    n = sample.n
    at_label = at_labels(pool.references(sample.rows, verdict.bias), sample.labels)
    log_likelihood = np.log(likelihoods(at_label, verdict.rates, pool.n_classes))  # (E, H, n)
    total = log_likelihood.sum(axis=2) + verdict.log_prior
    weights = total[:, :, None] - log_likelihood
    weights = np.exp(weights - weights.max(axis=(0, 1)))
    anchors = (weights.sum(axis=0) / weights.sum(axis=(0, 1))).T @ verdict.expected  # (n, M)
    corrections = (verdict.residuals.sum(axis=1)[:, None] - verdict.residuals).T / max(n - 1, 1)
    return np.asarray(
        np.argmin(_masked(anchors + verdict.kappa * corrections + verdict.penalty, admissible), axis=1)
    )


def _masked(scores: Floats, admissible: Bools | None) -> Floats:
    return scores if admissible is None else np.where(admissible, scores, np.inf)
