"""Does each label-free rule's assumption hold on this pool? One verdict a rule, with the number it rests on.

Sees arrays only. A verdict that rests on a proxy says so; None means that it cannot be judged without labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from engine.diagnose.health import CandidateHealth, Regime
from engine.rules.label_free import LABEL_FREE, atc_mc, atc_ne
from engine.rules.statistics import PoolStatistics
from engine.rules.streaming import class_shares
from engine.types import Floats
from engine.words import percent

_BALANCE_LIMIT = 3.0  # largest over mean class share from which a uniform prior is called broken
_TIE_LIMIT = 0.05  # share of the pool that may sit exactly on ATC's threshold


class _Verdict(NamedTuple):
    """Whether an assumption holds (None: cannot be judged), the sentence, and whether it rests on a proxy."""

    holds: bool | None
    sentence: str
    is_proxy: bool


@dataclass(frozen=True)
class Assumption:
    """Whether a rule's assumption holds here: True, False, or None if this pool cannot tell."""

    rule: str
    holds: bool | None
    sentence: str
    is_proxy: bool


def check_assumptions(
    pool: PoolStatistics, teacher: Floats, health: CandidateHealth, regime: Regime
) -> tuple[Assumption, ...]:
    """Judge every label-free rule on this pool; teacher is (N, K)."""
    shares = class_shares(teacher)
    verdicts = {
        "distortion": _teacher_verdict(health, pool.distortion),
        "avg-confidence": _confidence_verdict(regime),
        "entropy": _confidence_verdict(regime),
        "atc-mc": _tie_verdict(pool, atc_mc, regime),
        "atc-ne": _tie_verdict(pool, atc_ne, regime),
        "doc": (
            None,
            (
                "It takes agreement with the teacher for accuracy and corrects it by confidence, so it can be"
                " no better than the teacher's classes are."
            ),
            True,
        ),
        **dict.fromkeys(("nuclear-norm", "softmax-corr", "cot"), _balance_verdict(shares)),
    }
    return tuple(Assumption(rule, *verdicts[rule]) for rule in LABEL_FREE)


def _teacher_verdict(health: CandidateHealth, distortion: Floats) -> _Verdict:
    if health.is_proxy:
        return _Verdict(None, "Whether the teacher is worth following cannot be seen without labels.", True)
    best = float(health.quality.max())
    follower = float(health.quality[int(np.argmin(distortion))])
    holds = best - follower <= 0.1
    return _Verdict(
        holds,
        f"The candidate closest to the teacher is right on {percent(follower)} of the labels, the candidate"
        f" that is right most often on {percent(best)}.",
        False,
    )


def _confidence_verdict(regime: Regime) -> _Verdict:
    measure = "teacher agreement" if regime.is_proxy else "accuracy"
    if np.isnan(regime.correlation):
        return _Verdict(
            None,
            f"Confidence or {measure} is the same for every candidate, so their relation cannot be seen.",
            regime.is_proxy,
        )
    holds = regime.kind in ("underconfident", "healthy") and regime.correlation > 0.5
    return _Verdict(
        holds,
        f"Across candidates, confidence and {measure} correlate at {regime.correlation:+.2f} (+1 would be"
        " ideal).",
        regime.is_proxy,
    )


def _tie_verdict(pool: PoolStatistics, rule: Callable[..., Floats], regime: Regime) -> _Verdict:
    loose = rule(pool)
    on_threshold = loose - rule(pool, strict=True)
    pick = int(np.argmax(loose))
    tied = int(np.sum(loose == loose[pick]))
    if on_threshold[pick] > _TIE_LIMIT and np.isfinite(loose).all():
        return _Verdict(
            False,
            f"{percent(float(on_threshold[pick]))} of its pick's images lie exactly on the threshold (`>=`"
            f" counts them, `>` would not). {_shared(tied)}",
            False,
        )
    holds, sentence, is_proxy = _confidence_verdict(regime)
    return _Verdict(holds, f"{_shared(tied)} {sentence}", is_proxy)


def _shared(tied: int) -> str:
    return (
        "One candidate alone has the best score." if tied == 1 else f"{tied} candidates share the best score."
    )


def _balance_verdict(shares: Floats) -> _Verdict:
    ratio = float(shares.max() * len(shares))
    sentence = f"By the teacher's probabilities the largest class has {ratio:.1f} times an equal share."
    return _Verdict(ratio <= _BALANCE_LIMIT, sentence, True)
