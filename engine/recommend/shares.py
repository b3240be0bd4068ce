"""Class shares learned from labels: the biases of hypotheses that leave them open, and what that freedom
costs.

Sees arrays only. Fits a mode and charges its width; knows nothing of candidates.
"""

from __future__ import annotations

import numpy as np

from engine.recommend.channel import at_labels
from engine.recommend.hypotheses import CalibratedPool, soften
from engine.recommend.labeled import AT_ONCE
from engine.recommend.trust import ErrorPrior
from engine.rules.streaming import blocks
from engine.types import Floats, Ints, LabeledSample

SHARE_SD = 1.0  # prior sd of a learned class share's log odds
_SHARE_STEPS, _DAMPING = 6, 0.7
_PRECISION = 1 / SHARE_SD**2


def learn_shares(pool: CalibratedPool, sample: LabeledSample, prior: ErrorPrior) -> tuple[Floats, Floats]:
    """Return bias (H, K) with the open class shares fitted to the labels, and log_prior (H,) charged for it.

    A few damped Newton steps, with the diagonal of the information r(1-r) summed over the labels, climb to
    the mode of likelihood times N(start, SHARE_SD²); Laplace's approximation charges what the prior and the
    width of the mode cost. `prior` is of symmetric errors: for class shares the kind of error hardly matters.
    """
    bias, log_prior = pool.bias.copy(), pool.log_prior.copy()
    if sample.n == 0:
        return bias, log_prior
    open_, seen = np.flatnonzero(pool.learned), pool.log_refs[:, sample.rows]
    for part in blocks(len(open_), seen[0].size, AT_ONCE):
        some = open_[part]
        bias[some], charge = _fitted(
            seen[pool.ref[some]], pool.temperature[some], pool.bias[some], sample.labels, prior
        )
        log_prior[some] -= 0.5 * charge
    return bias, log_prior


def _fitted(
    log_refs: Floats, temperature: Floats, start: Floats, labels: Ints, prior: ErrorPrior
) -> tuple[Floats, Floats]:
    """Return the fitted biases (H, K) of some hypotheses and twice what that costs each, (H,)."""
    moved = start.copy()
    for _ in range(_SHARE_STEPS):
        references = soften(log_refs, temperature, moved)
        slope = label_slope(references, labels, prior) - _PRECISION * (moved - start)
        moved += _DAMPING * np.clip(slope / (_information(references) + _PRECISION), -1, 1)
    information = _information(soften(log_refs, temperature, moved))
    charge = _PRECISION * (moved - start) ** 2 + np.log1p(information / _PRECISION)
    return moved, np.asarray(charge.sum(axis=1))


def label_slope(references: Floats, labels: Ints, prior: ErrorPrior) -> Floats:
    """Return the slope (H, K) of the labels' log likelihood in the class biases, η averaged by its posterior.

    With r = softmax(.. + bias) a label y has likelihood l = (1-η)·r_y + η/(K-1)·(1-r_y) = c·r_y + w, where
    w = η/(K-1) and c = 1-η-w. Since ∂r_y/∂bias_k = r_y·(1[k=y] - r_k),

        ∂ log l/∂bias_k = c·r_y·(1[k=y] - r_k) / l = 1[k=y]·c·r_y/l + r_k·(w/l - 1),

    because c·r_y = l - w. The posterior of η given the bias weighs both terms (its own slope cancels at the
    mode).
    """
    n_classes = references.shape[2]
    at_label = at_labels(references, labels)
    wrong = prior.rates / (n_classes - 1)
    rate, share = prior.rates[:, None, None], wrong[:, None, None]
    likelihood = (1 - rate) * at_label + share * (1 - at_label)
    by_rate = np.log(likelihood).sum(axis=2) + prior.log_odds[:, None]
    by_rate = np.exp(by_rate - by_rate.max(axis=0))
    by_rate /= by_rate.sum(axis=0)
    others = np.einsum("eh,ehn->hn", by_rate * wrong[:, None], 1 / likelihood) - 1
    gain = np.einsum("eh,ehn->hn", by_rate * (1 - prior.rates - wrong)[:, None], 1 / likelihood) * at_label
    return np.asarray(np.einsum("hn,hnk->hk", others, references) + gain @ np.eye(n_classes)[labels])


def _information(references: Floats) -> Floats:
    return np.asarray((references * (1 - references)).sum(axis=1))
