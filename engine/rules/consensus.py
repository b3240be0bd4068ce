"""CODA-style selection: which candidate is most probably the most accurate, judged from the candidates'
consensus and a few labels.

After Kay, Van Horn, Maji, Sheldon and Beery, "Consensus-Driven Active Model Selection" (ICCV 2025), as a peer
to compare with. Sees arrays only. Its choice of the next image is left out: every rule here gets the same
labels.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaln, xlog1py, xlogy

from engine.types import Floats, LabeledSample, UserError

# The authors' published settings: weight of the consensus in the prior, and of one label in the update.
PRIOR_STRENGTH, UPDATE_STRENGTH, MULTIPLIER = 0.1, 0.01, 2.0
_MAX_COUNTS = 150_000_000  # values of one table of (M, K, K) float64, of which there are three at once
_POINTS = 256  # of the integral over accuracies


def confusion_posteriors(candidates: Floats, sample: LabeledSample) -> Floats:
    """Return Dirichlet counts (M, K, K) of each candidate's confusion matrix: row = true class, column =
    answer.

    The prior is 1 on the diagonal and 1/(K-1) beside it, plus PRIOR_STRENGTH times the candidate's mean
    probabilities by consensus class (the class of the candidates' mean). Each label adds UPDATE_STRENGTH to
    the answer given there.
    """
    n_candidates, _, n_classes = candidates.shape
    if n_candidates * n_classes**2 > _MAX_COUNTS:
        raise UserError(
            f"{n_candidates} candidates of {n_classes:,} classes need a table of every class by every other"
            " for each, which is more than memory holds.",
            "Use another rule, or fewer candidates.",
            option="method",
        )
    total = np.zeros(candidates.shape[1:])
    for probs in candidates:
        total += probs
    members = np.eye(n_classes)[total.argmax(axis=1)]  # (N, K)
    confusion = np.stack([members.T @ np.asarray(probs, dtype=np.float64) for probs in candidates])
    confusion /= np.maximum(confusion.sum(axis=2, keepdims=True), 1e-6)
    base = np.full((n_classes, n_classes), 1 / (n_classes - 1))
    np.fill_diagonal(base, 1.0)
    counts = MULTIPLIER * (base + PRIOR_STRENGTH * confusion)
    answers = np.asarray(candidates[:, sample.rows]).argmax(axis=2)
    for label, given in zip(sample.labels, answers.T, strict=True):
        counts[np.arange(n_candidates), label, given] += UPDATE_STRENGTH
    return np.asarray(counts)


def class_shares(candidates: Floats, counts: Floats) -> Floats:
    """Return the pool's estimated class shares (K,): every candidate's answers, sent back through its
    counts.
    """
    total = np.zeros(candidates.shape[1:])
    for probs, own in zip(candidates, counts, strict=True):
        total += np.asarray(probs, dtype=np.float64) @ own.T
    total /= np.maximum(total.sum(axis=1, keepdims=True), 1e-12)
    return np.asarray(total.mean(axis=0))


def probability_best(counts: Floats, shares: Floats) -> Floats:
    """Return each candidate's chance to be the most accurate, (M,).

    Its accuracy on class c is Beta(count of right answers, count of others); the chance to lead on a class is
    the integral of its density times the others' distribution functions, and classes count by their share.
    """
    right = np.einsum("mcc->cm", counts)
    wrong = counts.sum(axis=2).T - right
    x = np.linspace(1e-6, 1 - 1e-6, _POINTS)
    chances = np.zeros(len(counts))
    for share, a, b in zip(shares, right, wrong, strict=True):
        at = x[:, None]  # the Beta distributions' density and what lies below, without loading scipy.stats
        density = np.exp(xlogy(a - 1, at) + xlog1py(b - 1, -at) - betaln(a, b))
        below = betainc(a, b, at)
        log_below = np.log(np.maximum(below, 1e-30))
        lead = np.trapezoid(density * np.exp(log_below.sum(axis=1, keepdims=True) - log_below), x, axis=0)
        chances += share * lead / max(float(lead.sum()), 1e-30)
    return chances


def consensus_scores(candidates: Floats, sample: LabeledSample) -> Floats:
    """Return the chance of each candidate (M, N, K) to be best, (M,), higher is better; labels are
    optional.
    """
    counts = confusion_posteriors(candidates, sample)
    return probability_best(counts, class_shares(candidates, counts))
