"""Can confidence be trusted here? Collapse, degradation regime, calibration: what is measured and what is a
proxy.

Sees arrays only. With labels the diagnostics are measurements; without, agreement with the teacher stands in
for accuracy, and every result says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from engine.family.kinds import traits_of
from engine.rules.statistics import PoolStatistics
from engine.types import Bools, Floats, Ints, LabeledSample

COLLAPSE_FACTOR = 1.5  # collapsed = accuracy at most 1.5 times chance, as the paper
SINGLE_CLASS_SHARE = (
    0.95  # a candidate that gives one class to this share of the pool predicts a single class
)
ECE_BINS = 15  # equal-width, as the paper
RegimeKind = Literal["overconfident", "underconfident", "mixed", "healthy"]


@dataclass(frozen=True, eq=False)
class CandidateHealth:
    """One entry per candidate (M,). `quality` is accuracy on the labels if there are any, else teacher
    agreement (a proxy).
    """

    confidence: Floats  # mean max probability on the pool
    agreement: Floats  # share of pool rows with the teacher's class
    distinct: Floats  # share of distinct confidence values among pool rows; low = saturated, ties everywhere
    top_class_share: Floats  # share of the pool given to its most frequent class
    quality: Floats
    quality_low: Floats  # 95 % interval (Wilson for few labels, and for the pool as a sample of the target)
    quality_high: Floats
    collapsed: Bools  # quality at most 1.5 times chance
    n_labels: int  # 0: quality is the proxy

    @property
    def is_proxy(self) -> bool:
        return self.n_labels == 0

    @property
    def single_class(self) -> Bools:
        return np.asarray(self.top_class_share >= SINGLE_CLASS_SHARE)


def candidate_health(pool: PoolStatistics, sample: LabeledSample | None = None) -> CandidateHealth:
    """Measure each candidate's health on the pool, and its accuracy on S where there is one."""
    _, n_images, n_classes = pool.candidates.shape
    agreement = np.asarray(np.mean(pool.agrees, axis=1))
    if sample is not None and sample.n:
        hits, n = np.sum(pool.predicted[:, sample.rows] == sample.labels, axis=1), sample.n
    else:
        hits, n = np.sum(pool.agrees, axis=1), n_images
    quality, (low, high) = hits / n, wilson(hits, n)
    return CandidateHealth(
        confidence=np.asarray(np.mean(pool.confidence, axis=1)),
        agreement=agreement,
        distinct=np.array([len(np.unique(row)) / n_images for row in pool.confidence]),
        top_class_share=np.array(
            [np.bincount(row, minlength=n_classes).max() / n_images for row in pool.predicted]
        ),
        quality=quality,
        quality_low=low,
        quality_high=high,
        collapsed=quality <= COLLAPSE_FACTOR / n_classes,
        n_labels=0 if sample is None else sample.n,
    )


def wilson(hits: Ints, n: int, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the ends of Wilson's interval of the share hits / n, for every entry.

    >>> low, high = wilson(np.array([0, 8]), 10)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.49], [0.278, 0.943])
    """
    from scipy.special import ndtri  # takes a good part of a quick command to load, and few come here

    z, share = float(ndtri((1 + level) / 2)), np.asarray(hits) / n
    centre = share + z**2 / (2 * n)
    reach = z * np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2)
    low, high = (centre - reach) / (1 + z**2 / n), (centre + reach) / (1 + z**2 / n)
    return np.where(share == 0, 0.0, low), np.where(share == 1, 1.0, high)


@dataclass(frozen=True)
class Regime:
    """How confidence behaves as candidates degrade, in a word and in numbers; `regime_words` says it."""

    kind: RegimeKind
    correlation: float  # Pearson, quality against mean confidence over candidates; nan if either is constant
    worst_confidence: float  # mean confidence of the worst candidate
    best_confidence: float
    collapsed_distinct: (
        float  # median share of distinct confidences among collapsed candidates; nan if there are none
    )
    is_proxy: bool
    worst_quality: float  # accuracy or agreement of the worst candidate
    lowest: float  # of all candidates' accuracy or agreement
    highest: float


def degradation_regime(health: CandidateHealth, losses: Floats) -> Regime:
    """Name the regime. losses (M,) order the candidates from best to worst: labeled loss, or distortion as a
    proxy.
    """
    best, worst = int(np.argmin(losses)), int(np.argmax(losses))
    constant = np.ptp(health.quality) == 0 or np.ptp(health.confidence) == 0
    correlation = float("nan") if constant else float(np.corrcoef(health.quality, health.confidence)[0, 1])
    if not health.collapsed.any():
        kind: RegimeKind = "healthy"
    elif health.confidence[worst] > health.confidence[best] and not correlation > 0.5:
        kind = "overconfident"
    elif correlation > 0.5:
        kind = "underconfident"
    else:
        kind = "mixed"
    return Regime(
        kind=kind,
        correlation=correlation,
        worst_confidence=float(health.confidence[worst]),
        best_confidence=float(health.confidence[best]),
        collapsed_distinct=(
            float(np.median(health.distinct[health.collapsed])) if health.collapsed.any() else float("nan")
        ),
        is_proxy=health.is_proxy,
        worst_quality=float(health.quality[worst]),
        lowest=float(health.quality.min()),
        highest=float(health.quality.max()),
    )


@dataclass(frozen=True)
class CollapseRate:
    """Share of collapsed candidates at one bit width and granularity."""

    bits: int
    granularity: str
    rate: float
    n_candidates: int


def collapse_rates(names: Sequence[str], collapsed: Bools) -> tuple[CollapseRate, ...]:
    """Return the collapse rate by bits x granularity, of the candidates whose names are slugs; empty if none
    is.
    """
    cells = [
        (
            None
            if traits is None or traits.bits is None or traits.granularity is None
            else (traits.bits, traits.granularity)
        )
        for traits in map(traits_of, names)
    ]
    rates = []
    for bits, granularity in sorted({cell for cell in cells if cell is not None}):
        members = np.array([cell == (bits, granularity) for cell in cells])
        rates.append(
            CollapseRate(
                bits=bits,
                granularity=granularity,
                rate=float(np.mean(collapsed[members])),
                n_candidates=int(members.sum()),
            )
        )
    return tuple(rates)


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram: equal-width confidence bins (B,), nan where a bin is empty, and the expected
    calibration error.
    """

    edges: Floats  # (B + 1,)
    counts: Ints
    confidence: Floats
    accuracy: Floats
    ece: float


def reliability(probs: Floats, labels: Ints, *, n_bins: int = ECE_BINS) -> Reliability:
    """Bin predictions (n, K) by max probability and compare with the labels (n,).

    ECE = Σ_b n_b/n·|accuracy_b - confidence_b|, 0 to 1, lower is better. Bins are (lo, hi]; a confidence of 0
    falls in the first.
    """
    confidence = np.max(np.asarray(probs, dtype=np.float64), axis=1)
    correct = np.argmax(probs, axis=1) == labels
    edges = np.linspace(0, 1, n_bins + 1)
    bins = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, n_bins - 1)
    counts = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(bins, weights=confidence, minlength=n_bins) / counts
        accuracy = np.bincount(bins, weights=correct, minlength=n_bins) / counts
    gaps = np.where(counts > 0, np.abs(accuracy - mean_confidence), 0.0)
    return Reliability(
        edges=edges,
        counts=counts,
        confidence=mean_confidence,
        accuracy=accuracy,
        ece=float(np.sum(counts / len(labels) * gaps)),
    )
