"""The calibrated rule: expected loss under a recalibrated reference, weighed and corrected by a few noisy labels.

Sees arrays only. A hypothesis is a reference (teacher, or teacher and healthy candidates), its temperature T and how far its
class shares are evened out; labels may be wrong at a symmetric rate η. Labels weigh the hypotheses, no single one is picked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from engine.pool import FLOOR, PoolStatistics
from engine.types import Floats, Ints, LabeledSample

TEMPERATURES = np.exp(np.linspace(np.log(0.35), np.log(8.0), 13))
LOG_T_MEAN, LOG_T_SD = 0.1, 0.7  # the best T of 45 development families lay between 0.7 and 2.6, but for the few worst teachers
ERROR_RATES = np.array([0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
ERROR_PRIOR = np.full(
    len(ERROR_RATES), 1 / len(ERROR_RATES)
)  # the grid is denser near 0; a prior that trusted labels more lost under noise
EVENNESS = (0.0, 0.5, 1.0)  # 0 keeps the reference's class shares, 1 makes them equal
HEALTH = 0.15  # nats of distortion at which a candidate counts 1/e in the mixed reference
KAPPA_LABELS = 40.0  # labels at which the supervised correction gets half its weight
LABELS_A_STRATUM, MAX_STRATA = 10, 5  # post-stratification of the labeled sample, see `_sample_weights`
_BALANCE_ROWS, _BALANCE_STEPS, _STEP = 2000, 15, 0.8
_SMALLEST = 1e-6  # no reference excludes a label altogether
_BLOCK = 1 << 22  # reference entries held at a time


@dataclass(frozen=True, eq=False)
class CalibratedPool:
    """What the rule needs of a family, computed once: H hypotheses, M candidates, N images, K classes.

    log_refs (C, N, K) are the references' log probabilities; a hypothesis sharpens reference `ref` by `temperature` and adds
    `bias` (H, K). expected (H, M) is the mean pool loss of each candidate if the hypothesis held. log_prior (H,).
    contest (N,) says how far one label on that image would move healthy candidates apart.
    """

    candidates: Floats
    log_refs: Floats
    ref: Ints
    temperature: Floats
    evenness: Floats
    bias: Floats
    log_prior: Floats
    expected: Floats
    contest: Floats
    floor: float

    @property
    def n_classes(self) -> int:
        return int(self.candidates.shape[2])

    def references(self, rows: Ints | slice) -> Floats:
        """Return every hypothesis' class probabilities on some rows, (H, n, K)."""
        return _soften(self.log_refs[:, rows][self.ref], self.temperature, self.bias)

    def losses(self, rows: Ints | slice) -> Floats:
        """Return -log q of every class on some rows, (M, n, K)."""
        return np.asarray(-np.log(np.maximum(np.asarray(self.candidates[:, rows], dtype=np.float64), self.floor)))


def calibrated_pool(teacher: Floats, pool: PoolStatistics, *, floor: float = FLOOR) -> CalibratedPool:
    """Prepare the rule for teacher (N, K) and the pool's candidates (M, N, K)."""
    log_refs = _references(np.asarray(teacher, dtype=np.float64), pool, floor)
    grid = [(c, t, even) for c in range(len(log_refs)) for even in EVENNESS for t in TEMPERATURES]
    ref = np.array([c for c, _, _ in grid])
    temperature, evenness = np.array([t for _, t, _ in grid]), np.array([even for _, _, even in grid])
    step = max(1, log_refs.shape[1] // _BALANCE_ROWS)
    bias = _balance(log_refs[:, ::step][ref], temperature, evenness)
    log_prior = -0.5 * ((np.log(temperature) - LOG_T_MEAN) / LOG_T_SD) ** 2
    log_prior -= np.log(np.exp(log_prior).sum())
    prepared = CalibratedPool(pool.candidates, log_refs, ref, temperature, evenness, bias, log_prior, np.empty(0), np.empty(0), floor)
    expected, contest = _expected_losses(prepared, np.exp(-pool.distortion / HEALTH))
    return replace(prepared, expected=expected, contest=contest)


def _references(teacher: Floats, pool: PoolStatistics, floor: float) -> Floats:
    """Return log probabilities (2, N, K): the teacher, and its mixture with candidates weighed by exp(-distortion)."""
    weights = np.exp(-pool.distortion / HEALTH)
    mixed = teacher.copy()
    for weight, probs in zip(weights, pool.candidates, strict=True):
        if weight > 1e-4:
            mixed += weight * probs
    return np.asarray(np.log(np.maximum(np.stack([teacher, mixed / (1 + weights.sum())]), floor)))


def _soften(log_refs: Floats, temperature: Floats, bias: Floats) -> Floats:
    logits = log_refs / temperature[:, None, None] + bias[:, None]
    logits -= logits.max(axis=2, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=2, keepdims=True)
    return logits


def _balance(log_refs: Floats, temperature: Floats, evenness: Floats) -> Floats:
    """Return the class biases (H, K) that move each hypothesis' class shares towards equal ones, as far as `evenness` says."""
    probs = _soften(log_refs, temperature, np.zeros((len(log_refs), log_refs.shape[2])))
    bias = np.zeros((len(probs), probs.shape[2]))
    moving = np.flatnonzero(evenness)
    probs = probs[moving]
    target = np.maximum(probs.mean(axis=1), _SMALLEST) ** (1 - evenness[moving, None])
    target /= target.sum(axis=1, keepdims=True)
    factors = np.ones_like(target)
    for _ in range(_BALANCE_STEPS):
        # class share = factor_k · mean of p_ik / Σ_c factor_c p_ic
        norm = np.einsum("hik,hk->hi", probs, factors)
        share = factors * np.einsum("hik,hi->hk", probs, 1 / norm) / probs.shape[1]
        factors *= (target / np.maximum(share, _SMALLEST)) ** _STEP
        factors /= factors.sum(axis=1, keepdims=True)
    bias[moving] = np.log(factors)
    return bias


def _expected_losses(pool: CalibratedPool, health: Floats) -> tuple[Floats, Floats]:
    """Return expected (H, M) and contest (N,), over blocks of rows."""
    n_images, n_classes = pool.candidates.shape[1:]
    step = max(1, _BLOCK // (len(pool.ref) * n_classes))
    total, contest, prior = np.zeros((len(pool.ref), len(pool.candidates))), np.empty(n_images), np.exp(pool.log_prior)
    for start in range(0, n_images, step):
        rows = slice(start, min(start + step, n_images))
        references, losses = pool.references(rows), pool.losses(rows)
        total += references.reshape(len(references), -1) @ losses.reshape(len(losses), -1).T
    expected = total / n_images
    for start in range(0, n_images, step):
        rows = slice(start, min(start + step, n_images))
        contest[rows] = contested(pool.references(rows), prior, expected, pool.losses(rows), health)
    return expected, contest


def contested(references: Floats, weights: Floats, expected: Floats, losses: Floats, chances: Floats, n: int = 0) -> Floats:
    """Return how far the next label is expected to move the candidates' scores apart, (n_rows,), after n labels.

    references (H, n_rows, K) with weights (H,) and expected (H, M); losses (M, n_rows, K); chances (M,) say which candidates matter.
    A label moves scores in two ways: it reweighs the hypotheses, which changes the anchor, and it enters the correction.
    """
    share, belief = chances / chances.sum(), np.einsum("h,hnk->nk", weights, references)
    gaps = expected - (expected @ share)[:, None]
    gaps = (gaps - weights @ gaps) * weights[:, None]
    # E_y of the squared change of a posterior mean is Σ_y Cov_h(r_h(y), gap_h)² / r(y)
    shift = np.tensordot(gaps, references, axes=(0, 0))
    learned = np.einsum("m,mnk,nk->n", share, shift**2, 1 / np.maximum(belief, _SMALLEST))
    contrast = losses - np.einsum("m,mnk->nk", share, losses)
    contrast -= np.einsum("mnk,nk->mn", contrast, belief)[:, :, None]
    direct = np.einsum("m,mnk,nk->n", share, contrast**2, belief) / (n + 1 + KAPPA_LABELS) ** 2
    return np.asarray(np.sqrt(learned + direct))


# --- inference ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Calibrated:
    """The rule's verdict: scores (M,) = anchor + kappa·correction, and what the labels say about the hypotheses.

    weights (E, H) is the posterior over error rates and hypotheses; residuals (M, n) are the weighted supervised terms, one per label;
    belief (n,) is the probability that each observed label is right.
    """

    scores: Floats
    anchor: Floats
    correction: Floats
    kappa: float
    weights: Floats
    residuals: Floats
    belief: Floats

    @property
    def hypothesis_weights(self) -> Floats:
        """(H,) posterior of the hypotheses, error rates summed out."""
        return np.asarray(self.weights.sum(axis=0))

    @property
    def error_rate(self) -> float:
        """Posterior mean of η."""
        return float(self.weights.sum(axis=1) @ ERROR_RATES)


def calibrate(pool: CalibratedPool, sample: LabeledSample) -> Calibrated:
    """Weigh the hypotheses by the labels and score every candidate; an empty sample leaves the prior.

    The label's likelihood is (1-η)·r(y) + η/(K-1)·(1-r(y)) under reference r. The correction is the mean over S of
    Σ_c (v(c) - r(c))·loss(c), where v is the probability of each class given reference and observed label.
    """
    at, labels, n = np.arange(sample.n), sample.labels, sample.n
    references = pool.references(sample.rows)
    at_label = np.maximum(references[:, at, labels], _SMALLEST)
    right = (1 - ERROR_RATES)[:, None, None]
    wrong = (ERROR_RATES / (pool.n_classes - 1))[:, None, None]
    likelihood = right * at_label + wrong * (1 - at_label)  # (E, H, n)
    log_weights = np.log(likelihood).sum(axis=2) + pool.log_prior + np.log(ERROR_PRIOR)[:, None]
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    anchor = weights.sum(axis=0) @ pool.expected
    belief = np.einsum("eh,ehn->n", weights, right * at_label / likelihood)
    # v - r = r·(wrong/likelihood - 1) everywhere, plus what the observed class gains
    kept = np.einsum("eh,ehn->hn", weights, wrong / likelihood) - weights.sum(axis=0)[:, None]
    direction = np.einsum("hn,hnk->nk", kept, references)
    direction[at, labels] += np.einsum("eh,ehn->n", weights, (right - wrong) * at_label / likelihood)
    residuals = np.einsum("nk,mnk->mn", direction, pool.losses(sample.rows)) * _sample_weights(pool.contest, sample.rows)
    correction = residuals.mean(axis=1) if n else np.zeros(len(anchor))
    kappa = n / (n + KAPPA_LABELS)
    return Calibrated(anchor + kappa * correction, anchor, correction, kappa, weights, residuals, belief)


def _sample_weights(contest: Floats, rows: Ints) -> Floats:
    """Return weights (n,) of mean one that give each stratum of the pool its share, however the rows were chosen.

    Strata are equal parts of the pool by `contest`, the quantity that `label-next` goes by: images chosen because they are
    contested would otherwise stand for all. A random sample is thereby post-stratified.
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
    """Return the posterior of T, η and the class shares, JSON-ready: grids with their probabilities, and plain averages."""
    by_hypothesis = verdict.hypothesis_weights
    by_temperature = [float(by_hypothesis[pool.temperature == t].sum()) for t in TEMPERATURES]
    return {
        "temperature": float(np.exp(by_hypothesis @ np.log(pool.temperature))),
        "temperature_grid": [float(t) for t in TEMPERATURES],
        "temperature_posterior": by_temperature,
        "error_rate": verdict.error_rate,
        "error_rate_grid": [float(rate) for rate in ERROR_RATES],
        "error_rate_posterior": [float(weight) for weight in verdict.weights.sum(axis=1)],
        "evenness": float(by_hypothesis @ pool.evenness),
        "teacher_weight": float(by_hypothesis[pool.ref == 0].sum()),
        "kappa": verdict.kappa,
    }
