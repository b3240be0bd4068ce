"""The calibrated rule: expected loss under a recalibrated reference, weighed and corrected by a few noisy
labels.

Sees arrays only. Labels may be wrong at a rate η (see channel.py). They weigh the hypotheses (see
hypotheses.py), no single one is picked; they teach the class shares where a hypothesis leaves those open (see
shares.py); and they correct the expected loss by what they saw themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from engine.recommend.channel import signal, undone
from engine.recommend.hypotheses import CalibratedPool, soften
from engine.recommend.labeled import AT_ONCE, LabeledReferences
from engine.recommend.shares import learn_shares
from engine.recommend.trust import ErrorPrior, error_prior
from engine.rules.streaming import blocks
from engine.types import Bools, Floats, Ints, LabeledSample, LabelTrust

# nats per unit of SoftmaxCorr before any label; clean labels at which that is halved
SHAPE_WEIGHT, SHAPE_LABELS = 2.0, 30.0
LABELS_A_STRATUM, MAX_STRATA = 10, 5  # post-stratification of the labeled sample, see `_sample_weights`
CHECKED_LABELS = 15.0  # checked labels at which the correction has half its weight, at the latest
# Clean labels' worth at which, among peers, undoing errors on average counts as much as what each label is
# believed to say; on the shipped children the latter lost under noise (40 % wrong: 0.11 instead of 0.08)
UNDONE_LABELS = 100.0
NEGLIGIBLE = 1e-3  # of the largest weight: hypotheses below it keep the expected losses they started with


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The rule's verdict: scores (M,) = anchor + kappa·correction, and what the labels say about the
    hypotheses.

    weights (E, H) is the posterior over errors (rates and confused, both (E,)) and hypotheses, from log_prior
    (H,) that charges learned class shares; trust is what was said of the labels; bias (H, K) and expected (H,
    M) are the pool's with the shares learned. usual (M, n) are the losses expected at the labeled images
    before their label is seen, residuals (M, n) what each label then adds, weighed; n_images is the pool's
    size; belief (n,) is the probability that each observed label is right; effective is how many clean
    labels these are worth. penalty (M,) is what `auto` adds for outputs that look less like distinct classes,
    by SoftmaxCorr. That takes classes for equally frequent, so it counts as far as the posterior believes
    that, and it fades with labels, clean ones sooner than noisy ones.
    """

    scores: Floats
    anchor: Floats
    correction: Floats
    kappa: float
    effective: float
    penalty: Floats
    trust: LabelTrust
    weights: Floats
    log_prior: Floats
    bias: Floats
    expected: Floats
    usual: Floats
    residuals: Floats
    n_images: int
    belief: Floats
    rates: Floats
    confused: Bools

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
        """Posterior mean of η, whatever the kind of error."""
        return float(self.weights.sum(axis=1) @ self.rates)


def calibrate(pool: CalibratedPool, sample: LabeledSample, trust: LabelTrust = "normal") -> Calibrated:
    """Weigh the hypotheses by the labels and score every candidate; an empty sample leaves the prior.

    A label's likelihood is (1-η)·r(y) plus what errors add under reference r, with η as `trust` allows. The
    score is the expected loss (anchor) plus kappa times what the labels saw beyond it (correction).
    """
    prior = error_prior(trust, pool.n_classes)
    posterior = _weigh(pool, sample, prior)
    by_hypothesis = posterior.weights.sum(axis=0)
    expected = _expected_with(pool, posterior.bias, by_hypothesis)
    anchor = by_hypothesis @ expected
    kinds = _kinds(pool, posterior.weights.sum(axis=1), prior)
    # A loss made unbiased for errors has about 1 / signal² times the variance of the plain one.
    effective = sample.n * sum(kind.weight * kind.signal**2 for kind in kinds)
    read = _read(sample, posterior, kinds, _undoing(pool.kinship, effective))
    usual, residuals = _seen(pool, sample, posterior, read)
    correction = residuals.mean(axis=1) if sample.n else np.zeros(len(anchor))
    half = pool.kappa_labels if trust != "checked" else min(pool.kappa_labels, CHECKED_LABELS)
    count = pool.kinship * effective + (1 - pool.kinship) * sample.n
    kappa = count / (count + half)
    return Calibrated(
        scores=anchor + kappa * correction,
        anchor=anchor,
        correction=correction,
        kappa=kappa,
        effective=effective,
        penalty=_penalty(pool, float(by_hypothesis @ pool.evenness), effective),
        trust=trust,
        weights=posterior.weights,
        log_prior=posterior.log_prior,
        bias=posterior.bias,
        expected=expected,
        usual=usual,
        residuals=residuals,
        n_images=pool.candidates.shape[1],
        belief=posterior.truth[np.arange(sample.n), sample.labels],
        rates=prior.rates,
        confused=prior.confused,
    )


@dataclass(frozen=True, eq=False)
class _Posterior:
    """What the labels say of hypotheses and errors: weights (E, H); on the labeled rows, the classes (n, K)
    that were expected before the labels were seen and the true classes (n, K) since.
    """

    weights: Floats
    log_prior: Floats
    bias: Floats
    before: Floats
    truth: Floats


def _weigh(pool: CalibratedPool, sample: LabeledSample, prior: ErrorPrior) -> _Posterior:
    bias, log_prior = learn_shares(pool, sample, prior.symmetric)
    references = LabeledReferences(pool, sample, bias)
    likelihood = references.likelihoods(prior)
    log_weights = np.log(likelihood).sum(axis=2) + log_prior + prior.log_odds[:, None]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    return _Posterior(
        weights=weights,
        log_prior=log_prior,
        bias=bias,
        before=references.mean(weights.sum(axis=0)),
        truth=references.true_classes(prior, weights[:, :, None] / likelihood),
    )


@dataclass(frozen=True, eq=False)
class _Kind:
    """One kind of label error: its posterior weight, mean error rate, the signal that leaves, and its
    confusion matrix (None: symmetric).
    """

    weight: float
    rate: float
    signal: float
    confusion: Floats | None


def _kinds(pool: CalibratedPool, by_rate: Floats, prior: ErrorPrior) -> tuple[_Kind, ...]:
    """Return the kinds of errors that count, their weights summing to one."""
    found = []
    for confused, confusion in ((False, None), (True, pool.confusion)):
        weights = np.where(prior.confused == confused, by_rate, 0)
        total = float(weights.sum())
        if total > NEGLIGIBLE:
            rate = float(weights @ prior.rates) / total
            left = signal(rate, pool.n_classes, confusion)
            found.append(_Kind(weight=total, rate=rate, signal=left, confusion=confusion))
    whole = sum(kind.weight for kind in found)
    return tuple(replace(kind, weight=kind.weight / whole) for kind in found)


def _undoing(kinship: float, effective: float) -> float:
    """Return how far label errors are undone on average rather than read by belief.

    The belief leans towards the references. Children differ by little, so that leaning misleads sooner than
    scatter does; peers differ by much, and there undoing errors needs many labels.
    """
    return kinship + (1 - kinship) * effective / (effective + UNDONE_LABELS)


def _read(sample: LabeledSample, posterior: _Posterior, kinds: tuple[_Kind, ...], share: float) -> Floats:
    """Return with which weights of the classes each label is read, (n, K): what it is believed to say, and by
    `share` with its errors undone on average.

    The former is firm and leans towards the references; the latter does not lean and is loose, because a
    candidate's loss at a class that it excludes is up to 18 nats and all of those enter: it needs many
    labels. Labels that are certainly right read the same either way.
    """
    read = (1 - share) * posterior.truth
    for kind in kinds if share > 0 else ():
        n_classes = read.shape[1]
        read += share * kind.weight * undone(sample.labels, n_classes, kind.rate, kind.confusion)
    return np.asarray(read)


def _seen(
    pool: CalibratedPool, sample: LabeledSample, posterior: _Posterior, read: Floats
) -> tuple[Floats, Floats]:
    """Return the loss expected at each labeled image before its label is seen, (M, n), and by how much the
    label moves it, (M, n), weighed so that every stratum of the pool has its share.
    """
    usual, moved = np.empty((2, len(pool.candidates), sample.n))
    for some in blocks(len(pool.candidates), max(1, posterior.before.size), AT_ONCE):
        losses = pool.losses(sample.rows, some)
        usual[some] = np.einsum("nk,mnk->mn", posterior.before, losses)
        moved[some] = np.einsum("nk,mnk->mn", read - posterior.before, losses)
    return usual, np.asarray(moved * _sample_weights(pool.contest, sample.rows))


def _penalty(pool: CalibratedPool, evenness: float, effective: float) -> Floats:
    # The square makes it fade late, then fast: few labels cannot replace it, many must be able to overrule
    # it.
    # It tells children that collapse from those that do not; among peers it says little.
    weight = SHAPE_WEIGHT * pool.kinship * evenness / (1 + (effective / SHAPE_LABELS) ** 2)
    return np.asarray(weight * pool.shape)


def _expected_with(pool: CalibratedPool, bias: Floats, weights: Floats) -> Floats:
    """Return the expected losses (H, M) with learned class shares: what they change on a few rows is taken to
    hold for the pool.
    """
    expected = pool.expected
    moved = np.flatnonzero(
        pool.learned & (weights > NEGLIGIBLE * weights.max()) & np.any(bias != pool.bias, axis=1)
    )
    if len(moved):
        expected = expected.copy()
        for part in blocks(len(moved), pool.few_losses.shape[1], AT_ONCE):
            some = moved[part]
            change = pool.references(pool.few, bias, some) - pool.references(pool.few, None, some)
            expected[some] += change.reshape(len(some), -1) @ pool.few_losses.T / len(pool.few)
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


def posterior_belief(pool: CalibratedPool, verdict: Calibrated, rows: Ints | slice = slice(None)) -> Floats:
    """Return the class probabilities that the posterior expects on some rows, (n, K), one hypothesis at a
    time.
    """
    weights = verdict.hypothesis_weights
    kept = np.flatnonzero(weights > NEGLIGIBLE * weights.max())
    log_refs = pool.log_refs[:, rows]  # once: those of a large family are read from disk
    total = np.zeros(log_refs[0].shape)
    for hypothesis in kept:
        one = slice(hypothesis, hypothesis + 1)
        total += (
            weights[hypothesis] * soften(log_refs[pool.ref[one]], pool.temperature[one], verdict.bias[one])[0]
        )
    return np.asarray(total / weights[kept].sum())
