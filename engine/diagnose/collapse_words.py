"""What may be said of a family's confidence and collapse: every sentence and title true of its numbers.

Reads finished diagnostics. Without labels there is no word on right and wrong, which nobody knows then.
"""

from __future__ import annotations

import math

import pandas as pd

from engine.diagnose.health import Regime
from engine.words import counted, listed, out_of, percent

_LOOSE = 0.5  # a correlation nearer to 0 than this is no relation to act on
_SURE = 0.5  # mean confidence from which a model may be called sure


def regime_title(regime: Regime) -> str:
    """Return the regime in a few words."""
    if regime.kind == "healthy":
        return "Nothing has collapsed" if not regime.is_proxy else "No collapse shows"
    if regime.kind == "underconfident":
        return f"Confidence falls with {_measure(regime)}"
    if regime.kind == "mixed":
        return "No clear pattern" if not regime.correlation < -_LOOSE else "The worse, the surer, on average"
    if regime.worst_confidence < _SURE or regime.worst_quality >= regime.worst_confidence:
        return "The worst candidate is not the least sure"
    return "Sure and wrong" if not regime.is_proxy else "Sure, and unlike the teacher"


def regime_sentence(regime: Regime) -> str:
    """Return what the numbers say and no more."""
    return {
        "overconfident": _overconfident,
        "underconfident": _underconfident,
        "mixed": _mixed,
        "healthy": _healthy,
    }[regime.kind](regime)


def _measure(regime: Regime) -> str:
    return "agreement with the teacher" if regime.is_proxy else "accuracy"


def _overconfident(regime: Regime) -> str:
    correlation = regime.correlation
    if correlation < -0.75:
        ranking = "ranking by confidence puts this family close to backwards"
    elif correlation < -0.25:
        ranking = "ranking by confidence tends to put worse candidates before better ones"
    else:
        ranking = "ranking by confidence says little about which candidate is good"
    return (
        f"The worst candidate is surer than the best one ({percent(regime.worst_confidence)} against"
        f" {percent(regime.best_confidence)}): {ranking}."
    )


def _underconfident(regime: Regime) -> str:
    falls = f"Confidence falls along with {_measure(regime)}"
    if regime.worst_confidence > regime.best_confidence:
        return (
            f"{falls} over the family, yet the worst candidate is surer than the best one"
            f" ({percent(regime.worst_confidence)} against {percent(regime.best_confidence)}): do not choose"
            " by confidence alone."
        )
    return f"{falls}: it is a usable hint here."


def _mixed(regime: Regime) -> str:
    if math.isnan(regime.correlation):
        return (
            f"Confidence or {_measure(regime)} is the same for every candidate, so no relation can be seen:"
            " do not choose by confidence."
        )
    if regime.correlation < -_LOOSE:
        return (
            f"Candidates of lower {_measure(regime)} tend to be surer, though the worst is not surer than the"
            " best: do not choose by confidence."
        )
    return f"Confidence and {_measure(regime)} are only loosely related here: do not choose by confidence."


def _healthy(regime: Regime) -> str:
    lowest, highest = percent(regime.lowest), percent(regime.highest)
    span = f"is {lowest} for all" if lowest == highest else f"runs from {lowest} to {highest}"
    lead = "No candidate is down to chance" if regime.is_proxy else "No candidate is near guessing"
    words = f"{lead}: {_measure(regime)} {span}"
    if math.isnan(regime.correlation):
        return f"{words}."
    if regime.correlation > _LOOSE:
        return f"{words}, and confidence rises with it."
    if regime.correlation < -_LOOSE:
        return f"{words}, and the candidates low in it tend to be the surer ones."
    return f"{words}, and confidence says little about it."


def collapsed_title(n_collapsed: int, n_candidates: int, *, is_proxy: bool) -> str:
    """Return how many candidates have collapsed, by what was measured.

    >>> collapsed_title(1, 72, is_proxy=False)
    '1 of 72 candidates is hardly better than guessing'
    """
    if is_proxy:
        if not n_collapsed:
            return "No candidate's agreement with the teacher is near chance"
        verbs = ("agrees", "agree")
        words = out_of(n_collapsed, n_candidates, "candidate", verbs)
        return f"{words} with the teacher hardly more often than chance"
    if not n_collapsed:
        return "No candidate is near guessing"
    return f"{out_of(n_collapsed, n_candidates, 'candidate', ('is', 'are'))} hardly better than guessing"


def widths_title(rates: pd.DataFrame) -> str:
    """Return at which bit widths candidates collapse; `rates` has bits, granularity, rate, n_candidates."""
    counts = (
        rates.assign(n=rates["rate"] * rates["n_candidates"]).groupby("bits")[["n", "n_candidates"]].sum()
    )
    hit = [int(bits) for bits in counts.index[counts["n"] > 0.5]]
    if not hit:
        return "No candidate has collapsed at any bit width"
    if len(hit) < len(counts):
        return f"Candidates have collapsed at {listed([str(bits) for bits in hit], len(hit))} bits only"
    shares = counts["n"] / counts["n_candidates"]
    top = shares[shares >= shares.max() - 1e-9]
    if len(top) == len(shares):
        return f"{percent(float(top.iloc[0]))} of the candidates have collapsed at every bit width"
    most = listed([str(int(bits)) for bits in top.index], len(top))
    return (
        "Candidates have collapsed at every bit width, most often at"
        f" {most} bits ({percent(float(top.iloc[0]))} of them)"
    )


def surest_words(name: str, confidence: float, quality: float, *, is_proxy: bool) -> str:
    """Return what choosing by average confidence would take, and how good that is."""
    good = (
        f"agrees with the teacher on {percent(quality)} of the pool"
        if is_proxy
        else f"is right on {percent(quality)} of your labels"
    )
    return f"Average confidence would pick {name}, which is {percent(confidence)} sure on average and {good}."


def single_class_words(n_single: int, collapsed_distinct: float) -> str:
    """Return how many candidates give one class to nearly every image, and how tied collapsed ones are."""
    if n_single == 0:
        words = "No candidate gives one class to nearly every image."
    else:
        words = f"{counted(n_single, 'candidate gives', 'candidates give')} one class to nearly every image."
    if math.isnan(collapsed_distinct):
        return words
    return (
        f"{words} In the typical collapsed candidate {percent(collapsed_distinct)} of the images have a"
        " confidence of their own; the fewer, the more ties."
    )
