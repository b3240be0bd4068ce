"""The tables behind the Collapse page: every candidate's health, collapse by bits, reliability, and which
assumptions hold.

Pure functions over the diagnostics. Each result says whether it is measured with labels or is a proxy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.diagnose.assumptions import Assumption, check_assumptions
from engine.diagnose.health import (
    Regime,
    candidate_health,
    collapse_rates,
    degradation_regime,
    reliability,
)
from engine.rules.label_free import LABEL_FREE, atc_mc, atc_ne
from engine.rules.statistics import PoolStatistics
from engine.types import LabeledSample, Predictions


@dataclass(frozen=True, eq=False)
class CollapseReport:
    """Everything the Collapse page shows, for one family and one labeled sample (or none)."""

    regime: Regime
    # name, bits, granularity, confidence, quality, low, high, agreement, distinct, top_class_share,
    # single_class, collapsed
    health: pd.DataFrame
    rates: pd.DataFrame  # bits, granularity, rate, n_candidates; empty for foreign names
    assumptions: tuple[Assumption, ...]
    atc: pd.DataFrame  # rule, loose_pick, strict_pick, loose, strict, ties
    chance: float
    n_labels: int
    teacher_confidence: float
    teacher_quality: float  # accuracy on S, or 1 (agreement with itself) without labels

    @property
    def is_proxy(self) -> bool:
        return self.n_labels == 0

    @property
    def n_collapsed(self) -> int:
        return int(self.health["collapsed"].sum())

    @property
    def n_single_class(self) -> int:
        return int(self.health["single_class"].sum())


def collapse_report(
    predictions: Predictions, pool: PoolStatistics, sample: LabeledSample | None, candidates: pd.DataFrame
) -> CollapseReport:
    """Diagnose a family; `candidates` is the overview's candidates table (its recipe columns and losses are
    read).
    """
    given = sample if sample is not None and sample.n else None
    health = candidate_health(pool, given)
    losses = np.asarray(candidates["loss"] if given else candidates["distortion"], dtype=np.float64)
    regime = degradation_regime(health, losses)
    table = candidates[["name", "bits", "granularity", "cost", "distortion", "agreement"]].assign(
        confidence=health.confidence,
        quality=health.quality,
        low=health.quality_low,
        high=health.quality_high,
        distinct=health.distinct,
        top_class_share=health.top_class_share,
        single_class=health.single_class,
        collapsed=health.collapsed,
    )
    teacher, tops = pool.teacher_tops
    right = float(np.mean(teacher[given.rows] == given.labels)) if given else 1.0
    rates = [
        (r.bits, r.granularity, r.rate, r.n_candidates)
        for r in collapse_rates(predictions.names, health.collapsed)
    ]
    return CollapseReport(
        regime=regime,
        health=table,
        rates=pd.DataFrame(rates, columns=["bits", "granularity", "rate", "n_candidates"]),
        assumptions=check_assumptions(pool, predictions.teacher, health, regime),
        atc=atc_table(pool, predictions.names),
        chance=1 / predictions.n_classes,
        n_labels=health.n_labels,
        teacher_confidence=float(np.mean(tops)),
        teacher_quality=right,
    )


def atc_table(pool: PoolStatistics, names: tuple[str, ...]) -> pd.DataFrame:
    """Show what ties do to ATC: its pick and score when rows on the threshold count (`>=`, as published) and
    when they do not (`>`).
    """
    rows = []
    for rule, score in (("atc-mc", atc_mc), ("atc-ne", atc_ne)):
        loose, strict = score(pool), score(pool, strict=True)
        rows.append(
            {
                "rule": LABEL_FREE[rule].title,
                "pick_loose": names[int(np.argmax(loose))],
                "score_loose": float(loose.max()),
                "ties_loose": int(np.sum(loose == loose.max())),
                "pick_strict": names[int(np.argmax(strict))],
                "score_strict": float(strict.max()),
            }
        )
    return pd.DataFrame(rows)


def reliability_table(
    predictions: Predictions, sample: LabeledSample, models: Mapping[str, int | None]
) -> pd.DataFrame:
    """Return reliability bins on S for some models; `models` maps a shown name to a candidate index, or None
    for the teacher.

    Columns: confidence, accuracy, count, model, ece; one row a bin that is not empty.
    """
    parts = []
    for name, index in models.items():
        probs = (
            predictions.teacher[sample.rows] if index is None else predictions.candidates[index][sample.rows]
        )
        found = reliability(probs, sample.labels)
        bins = pd.DataFrame(
            {"confidence": found.confidence, "accuracy": found.accuracy, "count": found.counts}
        )
        parts.append(bins[bins["count"] > 0].assign(model=name, ece=found.ece))
    return pd.concat(parts, ignore_index=True)
