"""The calibrated rule: expected loss under a recalibrated reference, weighed and corrected by a few noisy
labels.

Sees arrays only. Labels may be wrong at a symmetric rate η. They weigh the hypotheses (see hypotheses.py), no
single one is picked; they teach the class shares where a hypothesis leaves those open; and they correct the
expected loss by what they saw themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from engine.recommend.hypotheses import KAPPA_LABELS, SMALLEST, TEMPERATURES, CalibratedPool, soften
from engine.types import Floats, Ints, LabeledSample

# Equally probable, on a grid that is denser near 0. A prior that trusted labels more lost under noise.
ERROR_RATES = np.array([0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
# of the rate at which labels say nothing, (K-1)/K; beyond it the correction would divide by almost nothing
MOST_NOISE = 0.8
SHARE_SD = 1.0  # prior sd of a learned class share's log odds
# nats per unit of SoftmaxCorr before any label; clean labels at which that is halved
SHAPE_WEIGHT, SHAPE_LABELS = (
    2.0,
    30.0,
)
LABELS_A_STRATUM, MAX_STRATA = 10, 5  # post-stratification of the labeled sample, see `_sample_weights`
_SHARE_STEPS, _DAMPING = 6, 0.7
_NEGLIGIBLE = 1e-3  # of the largest weight: hypotheses below it keep the expected losses they started with


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The rule's verdict: scores (M,) = anchor + kappa·correction, and what the labels say about the
    hypotheses.

    weights (E, H) is the posterior over error rates and hypotheses, from log_prior (H,) that charges learned
    class shares; bias (H, K) and expected (H, M) are the pool's with the shares learned. residuals (M, n) are
    the weighted supervised terms, one per label; belief (n,) is the probability that each observed label is
    right; effective is how many clean labels these are worth. penalty (M,) is what `auto` adds for outputs
    that look less like distinct classes, by SoftmaxCorr. That takes classes for equally frequent, so it
    counts as far as the posterior believes that, and it fades with labels, clean ones sooner than noisy ones.
    """

    scores: Floats
    anchor: Floats
    correction: Floats
    kappa: float
    effective: float
    penalty: Floats
    weights: Floats
    log_prior: Floats
    bias: Floats
    expected: Floats
    residuals: Floats
    belief: Floats
    rates: Floats

    @property
    def hypothesis_weights(self) -> Floats:
        """(H,) posterior of the hypotheses, error rates summed out."""
        return np.asarray(self.weights.sum(axis=0))

    @property
    def recommended(self) -> Floats:
        """(M,) the scores that `auto` goes by, lower is better."""
        return np.asarray(self.scores + self.penalty)

    @property
    def error_rate(self) -> float:
        """Posterior mean of η."""
        return float(self.weights.sum(axis=1) @ self.rates)


def calibrate(pool: CalibratedPool, sample: LabeledSample) -> Calibrated:
    """Weigh the hypotheses by the labels and score every candidate; an empty sample leaves the prior.

    The label's likelihood is (1-η)·r(y) + η/(K-1)·(1-r(y)) under reference r. The correction is the mean over
    S of the loss at the label, unbiased for the symmetric channel at the mean η, minus the loss that the mean
    reference expects there.
    """
    rates, n, k = error_rates(pool.n_classes), sample.n, pool.n_classes
    bias, log_prior = _learn_shares(pool, sample, rates)
    references = pool.references(sample.rows, bias)
    at_label = at_labels(references, sample.labels)
    likelihood = likelihoods(at_label, rates, k)
    log_weights = np.log(likelihood).sum(axis=2) + log_prior
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    by_hypothesis = weights.sum(axis=0)
    expected = _expected_with(pool, bias, by_hypothesis)
    anchor = by_hypothesis @ expected
    belief = np.einsum("eh,ehn->n", weights, (1 - rates)[:, None, None] * at_label / likelihood)
    rate = float(weights.sum(axis=1) @ rates)
    signal = 1 - k * rate / (k - 1)
    effective = n * signal**2  # the unbiased loss has about 1 / signal² times the variance
    losses, mean = pool.losses(sample.rows), np.einsum("h,hnk->nk", by_hypothesis, references)
    seen = (losses[:, np.arange(n), sample.labels] - rate / (k - 1) * losses.sum(axis=2)) / signal
    residuals = (seen - np.einsum("nk,mnk->mn", mean, losses)) * _sample_weights(pool.contest, sample.rows)
    correction = residuals.mean(axis=1) if n else np.zeros(len(anchor))
    kappa = effective / (effective + KAPPA_LABELS)
    scores = anchor + kappa * correction
    # The square makes it fade late, then fast: few labels cannot replace it, many must be able to overrule
    # it.
    penalty = (
        SHAPE_WEIGHT
        * float(by_hypothesis @ pool.evenness)
        / (1 + (effective / SHAPE_LABELS) ** 2)
        * pool.shape
    )
    return Calibrated(
        scores,
        anchor,
        correction,
        kappa,
        effective,
        penalty,
        weights,
        log_prior,
        bias,
        expected,
        residuals,
        belief,
        rates,
    )


def error_rates(n_classes: int) -> Floats:
    """Return the grid of η (E,), short of the rate at which labels carry no information."""
    return np.asarray(np.minimum(ERROR_RATES, MOST_NOISE * (n_classes - 1) / n_classes))


def at_labels(references: Floats, labels: Ints) -> Floats:
    """Return each hypothesis' probability of the observed labels, (H, n), never quite zero."""
    return np.maximum(references[:, np.arange(len(labels)), labels], SMALLEST)


def likelihoods(at_label: Floats, rates: Floats, n_classes: int) -> Floats:
    """Return the probability of observing each label through the symmetric channel, (E, H, n), from at_label
    (H, n).
    """
    rate = rates[:, None, None]
    return np.asarray((1 - rate) * at_label + rate / (n_classes - 1) * (1 - at_label))


def _learn_shares(pool: CalibratedPool, sample: LabeledSample, rates: Floats) -> tuple[Floats, Floats]:
    """Return bias (H, K) with the open class shares fitted to the labels, and log_prior (H,) charged for it
    (Laplace).

    A few damped diagonal Newton steps towards the mode of likelihood times N(start, SHARE_SD²), η averaged by
    its posterior.
    """
    bias, log_prior = pool.bias.copy(), pool.log_prior.copy()
    if sample.n == 0:
        return bias, log_prior
    open_, labels, k = np.flatnonzero(pool.learned), sample.labels, pool.n_classes
    log_refs, start = pool.log_refs[:, sample.rows][pool.ref[open_]], pool.bias[open_]
    moved, precision = start.copy(), 1 / SHARE_SD**2
    for _ in range(_SHARE_STEPS):
        references = soften(log_refs, pool.temperature[open_], moved)
        at_label = at_labels(references, labels)
        likelihood = likelihoods(at_label, rates, k)
        by_rate = np.log(likelihood).sum(axis=2)
        by_rate = np.exp(by_rate - by_rate.max(axis=0))
        by_rate /= by_rate.sum(axis=0)
        # posterior of the true class minus the reference: r·(wrong / likelihood - 1), and what the observed
        # class gains
        kept = np.einsum("eh,ehn->hn", by_rate * (rates / (k - 1))[:, None], 1 / likelihood) - 1
        gain = (
            np.einsum("eh,ehn->hn", by_rate * (1 - rates - rates / (k - 1))[:, None], 1 / likelihood)
            * at_label
        )
        slope = (
            np.einsum("hn,hnk->hk", kept, references) + gain @ np.eye(k)[labels] - precision * (moved - start)
        )
        information = (references * (1 - references)).sum(axis=1)
        moved += _DAMPING * np.clip(slope / (information + precision), -1, 1)
    references = soften(log_refs, pool.temperature[open_], moved)
    information = (references * (1 - references)).sum(axis=1)
    bias[open_] = moved
    log_prior[open_] -= 0.5 * (precision * (moved - start) ** 2 + np.log1p(information / precision)).sum(
        axis=1
    )
    return bias, log_prior


def _expected_with(pool: CalibratedPool, bias: Floats, weights: Floats) -> Floats:
    """Return the expected losses (H, M) with learned class shares: what they change on a few rows is taken to
    hold for the pool.
    """
    expected = pool.expected
    moved = np.flatnonzero(
        pool.learned & (weights > _NEGLIGIBLE * weights.max()) & np.any(bias != pool.bias, axis=1)
    )
    if len(moved):
        change = pool.references(pool.few, bias, moved) - pool.references(pool.few, None, moved)
        expected = expected.copy()
        expected[moved] += change.reshape(len(moved), -1) @ pool.few_losses.T / len(pool.few)
    return expected


def _sample_weights(contest: Floats, rows: Ints) -> Floats:
    """Return weights (n,) of mean one that give each stratum of the pool its share, however the rows were
    chosen.

    Strata are equal parts of the pool by `contest`, the quantity that `label-next` goes by: images chosen
    because they are contested would otherwise stand for all. A random sample is thereby post-stratified.
    """
    n_strata = min(MAX_STRATA, len(rows) // LABELS_A_STRATUM)
    if n_strata < 2:
        return np.ones(len(rows))
    edges = np.quantile(contest, np.arange(1, n_strata) / n_strata)
    pool_counts = np.bincount(np.searchsorted(edges, contest), minlength=n_strata)
    strata = np.searchsorted(edges, contest[rows])
    counts = np.bincount(strata, minlength=n_strata)
    weights = (pool_counts / np.maximum(counts, 1))[strata]
    return np.asarray(weights / weights.mean())


def posterior_summary(pool: CalibratedPool, verdict: Calibrated) -> dict[str, Any]:
    """Return the posterior of T, η and the class shares, JSON-ready: grids with their probabilities, and
    plain averages.

    The temperature is that of a reference whose class shares may have been moved, so it does not say whether
    the teacher is too sure: its mean confidence beside the share of its answers that the posterior expects to
    be right does.
    """
    by_hypothesis = verdict.hypothesis_weights
    kept = np.flatnonzero(by_hypothesis > _NEGLIGIBLE * by_hypothesis.max())
    teacher = np.exp(pool.log_refs[0, pool.few])
    belief = np.einsum(
        "h,hnk->nk",
        by_hypothesis[kept] / by_hypothesis[kept].sum(),
        pool.references(pool.few, verdict.bias, kept),
    )
    by_temperature = [float(by_hypothesis[pool.temperature == t].sum()) for t in TEMPERATURES]
    return {
        "temperature": float(np.exp(by_hypothesis @ np.log(pool.temperature))),
        "temperature_grid": [float(t) for t in TEMPERATURES],
        "temperature_posterior": by_temperature,
        "error_rate": verdict.error_rate,
        "error_rate_grid": [float(rate) for rate in verdict.rates],
        "error_rate_posterior": [float(weight) for weight in verdict.weights.sum(axis=1)],
        "evenness": float(by_hypothesis @ pool.evenness),
        "teacher_weight": float(by_hypothesis[pool.ref == 0].sum()),
        "teacher_confidence": float(teacher.max(axis=1).mean()),
        "teacher_accuracy": float(belief[np.arange(len(belief)), teacher.argmax(axis=1)].mean()),
        "kappa": verdict.kappa,
    }
