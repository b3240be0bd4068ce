"""What the pictures of a decision show, in one sentence each, true of the numbers drawn.

Reads a finished decision. Computes no score and changes no pick.
"""

from __future__ import annotations

import pandas as pd
from scipy.stats import spearmanr

from engine.decide.decision import Decision

_CLEAR = 0.5  # rank correlation from which two things may be said to go together


def choice_finding(decision: Decision) -> str:
    """Return how the recommended candidate stands to the teacher and to the labels, among those admitted.

    Needs labels: the table's `loss` is finite.
    """
    inside = decision.candidates[decision.candidates["admissible"]]
    pick = decision.candidates.iloc[decision.recommended.index]
    is_closest = bool(pick["distortion"] <= inside["distortion"].min())
    is_best = bool(pick["loss"] <= inside["loss"].min())
    if is_closest and is_best:
        return "The candidate closest to the teacher also fits your labels best, and is recommended"
    if is_closest:
        return "The candidate closest to the teacher is recommended, though another fits your labels better"
    if is_best:
        return "The recommended candidate fits your labels best; another is closer to the teacher"
    return "The recommended candidate is neither the closest to the teacher nor the best on your labels"


def memory_finding(candidates: pd.DataFrame) -> str:
    """Return whether memory buys closeness to the teacher: all that can be seen without labels.

    `candidates` has the columns cost and distortion; a cost of nan is unknown.
    """
    known = candidates[candidates["cost"].notna()]
    if known["cost"].nunique() < 2 or known["distortion"].nunique() < 2:
        return "How far each candidate lies from the teacher"
    together = float(spearmanr(known["cost"], known["distortion"]).statistic)
    if together < -_CLEAR:
        return "The more memory, the closer to the teacher, on the whole"
    if together > _CLEAR:
        return "Here more memory goes with more distance to the teacher"
    return "More memory does not reliably bring a candidate closer to the teacher"
