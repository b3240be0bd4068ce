"""How much worse one model is than another on the target: a distribution of the mean drop, from labels, the
posterior class probabilities of the whole pool and the posterior share of wrong labels.

Pure arrays. It speaks of the target at large, not only of the labeled images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from engine.types import Floats, LabeledSample

# Labels that the variance the posterior expects counts for: few labels that happen to agree would otherwise
# claim far too narrow an interval, because a rare expensive error has not been seen yet.
IMAGINED = 8.0


@dataclass(frozen=True)
class Drop:
    """How much worse the candidate is, positive is worse: estimate, and bounds that each hold with the stated
    confidence; n is how many labels speak about it.
    """

    estimate: float
    low: float
    high: float
    n: int


@dataclass(frozen=True, eq=False)
class Evidence:
    """What is known of a pool of N images and K classes.

    belief (N, K) are posterior class probabilities. rates (E,) are shares of wrong labels with their
    posterior weights (E,); rate 0 alone means that labels are taken as right.
    """

    belief: Floats
    sample: LabeledSample
    rates: Floats
    rate_weights: Floats


@dataclass(frozen=True)
class Spread:
    """A Student distribution of the mean drop, with its weight among the error rates."""

    weight: float
    mean: float
    scale: float
    freedom: float

    def mirrored(self) -> Spread:
        return Spread(weight=self.weight, mean=-self.mean, scale=self.scale, freedom=self.freedom)


@dataclass(frozen=True)
class Readings:
    """The drop read in two ways: labels as they stand, and with the posterior share of wrong ones.

    A reference that is sure and wrong makes right labels look wrong; so every bound must hold under both.
    """

    as_given: tuple[Spread, ...]
    corrected: tuple[Spread, ...]

    def mirrored(self) -> Readings:
        return Readings(
            as_given=tuple(spread.mirrored() for spread in self.as_given),
            corrected=tuple(spread.mirrored() for spread in self.corrected),
        )

    def centre(self) -> float:
        return (_mean(self.as_given) + _mean(self.corrected)) / 2

    def below(self, value: float) -> float:
        """Return the chance that the drop is at most `value`, the smaller of both readings."""
        return min(_below(self.as_given, value), _below(self.corrected, value))

    def bound(self, level: float) -> float:
        """Return the drop that is not exceeded with chance `level`, the larger of both readings."""
        return max(_quantile(self.as_given, level), _quantile(self.corrected, level))


def readings(drop: Floats, evidence: Evidence) -> Readings:
    """Return the mean drop, from drop (N, K): what each class as the truth would cost more than the rival."""
    corrected = [
        _spread(drop, evidence, float(rate), float(weight))
        for rate, weight in zip(evidence.rates, evidence.rate_weights, strict=True)
        if weight > 1e-4
    ]
    return Readings(as_given=(_spread(drop, evidence, 0.0, 1.0),), corrected=tuple(corrected))


def _spread(drop: Floats, evidence: Evidence, rate: float, weight: float) -> Spread:
    """Return the mean drop if a share `rate` of the labels is wrong.

    Seen values are made unbiased for symmetric errors, then powered by what the posterior expects of the pool
    (PPI++, see rules.prediction_powered). Their variance counts IMAGINED labels of the posterior's own.
    """
    belief, sample = evidence.belief, evidence.sample
    n_images, n_classes = drop.shape
    signal = 1 - n_classes * rate / (n_classes - 1)
    expected = np.einsum("nk,nk->n", belief, drop)
    own = float(np.einsum("nk,nk->n", belief, (drop - expected[:, None]) ** 2).mean()) / signal**2
    across = float(expected.var())
    at, n = expected[sample.rows], sample.n
    others = drop[sample.rows].sum(axis=1)
    seen = (drop[sample.rows, sample.labels] - rate / (n_classes - 1) * others) / signal
    tuning = _tuning(seen, at, across)
    residual = seen - tuning * at if n else np.array([(1 - tuning) * expected.mean()])
    freedom = max(n - 1, 0) + IMAGINED
    squares = float(((residual - residual.mean()) ** 2).sum())
    variance = (squares + IMAGINED * (own + (1 - tuning) ** 2 * across)) / freedom
    scale = math.sqrt(variance / max(n, 1) + tuning**2 * across / n_images)
    mean = tuning * float(expected.mean()) + float(residual.mean())
    return Spread(weight=weight, mean=mean, scale=max(scale, 1e-12), freedom=freedom)


def _tuning(seen: Floats, expected: Floats, variance: float) -> float:
    """Return the weight of the expectation between 0 and 1: learned from the labels, started by IMAGINED
    ones.
    """
    if len(seen) == 0 or variance <= 0:
        return 1.0
    centred = expected - expected.mean()
    covariance = float((centred * (seen - seen.mean())).sum()) + IMAGINED * variance
    return float(np.clip(covariance / (float((centred**2).sum()) + IMAGINED * variance), 0, 1))


def _mean(mixture: tuple[Spread, ...]) -> float:
    return sum(s.weight * s.mean for s in mixture) / sum(s.weight for s in mixture)


def _below(mixture: tuple[Spread, ...], value: float) -> float:
    total = sum(s.weight for s in mixture)
    return sum(s.weight * float(stdtr(s.freedom, (value - s.mean) / s.scale)) for s in mixture) / total


def _quantile(mixture: tuple[Spread, ...], level: float) -> float:
    ends = [s.mean + s.scale * float(stdtrit(s.freedom, level)) for s in mixture]
    if max(ends) - min(ends) < 1e-12:
        return ends[0]
    from scipy.optimize import brentq  # takes long to load, and few commands come here

    return float(brentq(lambda value: _below(mixture, value) - level, min(ends) - 1e-9, max(ends) + 1e-9))


def class_drop(values: Floats, overall: float, level: float) -> Drop | None:
    """Return the drop on one class from its labels' values (n,); few labels borrow the variance of all,
    `overall`.
    """
    n = len(values)
    if n == 0:
        return None
    mean, freedom = float(values.mean()), n - 1 + IMAGINED
    variance = (float(((values - mean) ** 2).sum()) + IMAGINED * overall) / freedom
    reach = float(stdtrit(freedom, level)) * math.sqrt(variance / n)
    return Drop(estimate=mean, low=mean - reach, high=mean + reach, n=n)
