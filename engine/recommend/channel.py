"""How a true class becomes an observed label: two kinds of error, their likelihood, and what a label says of
the true class.

Sees arrays only. Errors are symmetric (any other class alike) or confusions (the classes that the references
mix up on this pool); at error rate η the true class is kept with chance 1-η.
"""

from __future__ import annotations

import math

import numpy as np

from engine.recommend.trust import ErrorPrior
from engine.types import Floats, Ints

SMALLEST = 1e-6  # no reference excludes a label altogether
_PSEUDO = 0.5  # images of each pair of classes added before confusions are counted
_LEAST_SIGNAL = (
    0.2  # of what right labels would carry: classes that are confused both ways could leave nothing
)


def confusions(reference: Floats, teacher: Floats) -> Floats:
    """Return what a confused label becomes, (K, K), by true class: the share of the other classes in the
    teacher's answers (N, K) where the reference (N, K) sees that class. Rows sum to one, the diagonal is
    zero.
    """
    return confusions_of(np.asarray(reference.T @ teacher))


def confusions_of(together: Floats) -> Floats:
    """Return the same from referenceᵀ·teacher (K, K), which can be summed over blocks of rows."""
    joint = np.asarray(together + _PSEUDO, dtype=np.float64)
    np.fill_diagonal(joint, 0)
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def at_labels(references: Floats, labels: Ints) -> Floats:
    """Return each hypothesis' probability of the observed labels, (H, n), never quite zero."""
    return np.maximum(references[:, np.arange(len(labels)), labels], SMALLEST)


def likelihoods(prior: ErrorPrior, references: Floats, labels: Ints, confusion: Floats) -> Floats:
    """Return the probability of observing each label, (E, H, n), under every error rate and kind.

    (1-η)·r(y) + η·w(y), with w(y) = (1-r(y))/(K-1) for symmetric errors and Σ_c r(c)·confusion[c, y] for
    confusions.
    """
    at_label = at_labels(references, labels)
    found = np.empty((len(prior.rates), *at_label.shape))
    symmetric = (1 - at_label) / (references.shape[2] - 1)
    rates = prior.rates[:, None, None]
    found[~prior.confused] = ((1 - rates) * at_label + rates * symmetric)[~prior.confused]
    if prior.confused.any():
        mistaken = np.maximum(np.einsum("hnc,nc->hn", references, confusion[:, labels].T), 0.01 * SMALLEST)
        found[prior.confused] = ((1 - rates) * at_label + rates * mistaken)[prior.confused]
    return found


def signal(rate: float, n_classes: int, confusion: Floats | None) -> float:
    """Return how much of a label's information is left: 1 - η - η·ρ.

    ρ is the root mean square of the error matrix' other eigenvalues, 1/(K-1) for symmetric errors (confusion
    None).
    """
    if confusion is None:
        return 1 - n_classes * rate / (n_classes - 1)
    mixing = math.sqrt(max(float((confusion**2).sum()) - 1, 0.0) / (n_classes - 1))
    return max(1 - rate - rate * mixing, _LEAST_SIGNAL * (1 - rate))


def true_classes(
    prior: ErrorPrior,
    odds: Floats,
    references: Floats,
    labels: Ints,
    confusion: Floats,
) -> Floats:
    """Return what is believed of the true classes once the labels are seen, (n, K), rows summing to one.

    `odds` (E, H, n) are the posterior weights of error and hypothesis over the label's likelihood under them.
    By Bayes the true class is c with chance r(c)·P(label | c): 1-η at the label itself, beside it η/(K-1) or
    η·confusion[c, label].
    """
    n_classes, at = references.shape[2], (np.arange(len(labels)), labels)
    right = np.tensordot(1 - prior.rates, odds, axes=1) * at_labels(references, labels)
    wrong = odds * prior.rates[:, None, None]
    truth = np.einsum("hn,hnk->nk", wrong[~prior.confused].sum(axis=0) / (n_classes - 1), references)
    if prior.confused.any():
        confused = np.einsum("hn,hnk->nk", wrong[prior.confused].sum(axis=0), references)
        truth += confused * confusion[:, labels].T
    truth[at] = right.sum(axis=0)
    return np.asarray(truth / truth.sum(axis=1, keepdims=True))


def undone(labels: Ints, n_classes: int, rate: float, confusion: Floats | None) -> Floats:
    """Return weights of the classes, (n, K), with which losses read at the labels are, averaged over the
    errors, those at the true class: the labels' rows of the inverse channel matrix.
    """
    if confusion is None:
        share = rate / (n_classes - 1)
        weights = np.full((len(labels), n_classes), -share)
        weights[np.arange(len(labels)), labels] += 1
        return np.asarray(weights / signal(rate, n_classes, None))
    inverse = np.linalg.inv((1 - rate) * np.eye(n_classes) + rate * confusion)
    return np.asarray(inverse[labels])
