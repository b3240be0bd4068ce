"""What a verdict rests on, as data and in words: the reference it follows, how sure the teacher should be,
and what the labels did.

Reads a finished verdict. Computes no score and changes no pick.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine.recommend.calibrated import Calibrated, posterior_belief
from engine.recommend.doubt import Doubt
from engine.recommend.hypotheses import CONSENSUS, TEACHER, TEMPERATURES, CalibratedPool
from engine.recommend.trust import IN_WORDS
from engine.words import counted, percent

_TONE = 0.05  # confidence minus accuracy that counts as too sure or not sure enough
_NOTABLE = 0.001  # nats of a charge that are worth a word
FOLLOWS = {
    "teacher": "follows the teacher",
    "consensus": "follows the candidates' consensus",
    "labels": "follows your labels",
}


def posterior_summary(pool: CalibratedPool, verdict: Calibrated) -> dict[str, Any]:
    """Return the posterior of T, η and the class shares, JSON-ready: grids with their probabilities, and
    plain averages.

    The temperature is that of a reference whose class shares may have been moved, so it does not say whether
    the teacher is too sure: its mean confidence beside the share of its answers that the posterior expects to
    be right does.
    """
    by_hypothesis = verdict.hypothesis_weights
    teacher, belief = np.exp(pool.log_refs[TEACHER, pool.few]), posterior_belief(pool, verdict, pool.few)
    by_temperature = [float(by_hypothesis[pool.temperature == t].sum()) for t in TEMPERATURES]
    return {
        "temperature": float(np.exp(by_hypothesis @ np.log(pool.temperature))),
        "temperature_grid": [float(t) for t in TEMPERATURES],
        "temperature_posterior": by_temperature,
        "error_rate": verdict.error_rate,
        **_error_rates(verdict),
        "evenness": float(by_hypothesis @ pool.evenness),
        **followed(pool, verdict),
        "kinship": pool.kinship,
        "class_shares": "unknown" if pool.stated is None else "stated",
        **({} if pool.stated is None else {"stated_shares": [float(share) for share in pool.stated]}),
        "label_trust": verdict.trust,
        "teacher_confidence": float(teacher.max(axis=1).mean()),
        "teacher_accuracy": float(belief[np.arange(len(belief)), teacher.argmax(axis=1)].mean()),
        "kappa": verdict.kappa,
    }


def _error_rates(verdict: Calibrated) -> dict[str, Any]:
    """Return the shares of wrong labels with their probabilities, and how far errors look like confusions."""
    by_rate = verdict.weights.sum(axis=1)
    grid = np.unique(verdict.rates)
    return {
        "error_rate_grid": [float(rate) for rate in grid],
        "error_rate_posterior": [float(by_rate[verdict.rates == rate].sum()) for rate in grid],
        "confusion_weight": float(by_rate[verdict.confused].sum()),
    }


def followed(pool: CalibratedPool, verdict: Calibrated) -> dict[str, Any]:
    """Return what the verdict follows most, and the weights: the labels correct the expectation with
    label_weight; the expectation is the teacher's (alone or with candidates near it) and the consensus' by
    their posterior.
    """
    consensus = float(verdict.hypothesis_weights[pool.ref == CONSENSUS].sum())
    follows = "labels" if verdict.kappa > 0.5 else "consensus" if consensus > 0.5 else "teacher"
    return {
        "follows": follows,
        "teacher_weight": 1 - consensus,
        "consensus_weight": consensus,
        "label_weight": verdict.kappa,
    }


def reasons(summary: Mapping[str, Any], doubt: Doubt, pick: int, n: int, *, shape: float = 0.0) -> list[str]:
    """Say in three sentences why this candidate: what is followed, what the labels did, how sure it is.

    `summary` is that of the posterior; `shape` is the largest penalty that output shape (SoftmaxCorr) added.
    """
    third = (
        f"The pick is within {doubt.epsilon:g} nats of the best with {percent(doubt.close[pick])}"
        " probability,"
        f" and {_others(len(doubt.same) - 1)} cannot be told apart from it."
    )
    return [_on_the_reference(summary, n), _on_the_labels(summary, n, shape), third]


def _others(n: int) -> str:
    return counted(n, "other candidate") if n else "no other candidate"


def _on_the_reference(summary: Mapping[str, Any], n: int) -> str:
    confidence, accuracy = summary["teacher_confidence"], summary["teacher_accuracy"]
    gap = confidence - accuracy
    tone = (
        "overconfident"
        if gap > _TONE
        else "underconfident"
        if gap < -_TONE
        else "about as confident as it should be"
    )
    opening = (
        f"From {counted(n, 'label')} the teacher looks" if n else "Before any label the teacher is presumed"
    )
    followed = (
        "the consensus of the candidates" if summary["consensus_weight"] > 0.5 else "the teacher so corrected"
    )
    known = ", with classes as frequent as was stated" if summary["class_shares"] == "stated" else ""
    return (
        f"{opening} {tone} on this target (its confidence averages {percent(confidence)}, and about"
        f" {percent(accuracy)} of its answers should be right), so each candidate is judged by its"
        f" expected loss under {followed}{known}."
    )


def _on_the_labels(summary: Mapping[str, Any], n: int, shape: float) -> str:
    rate = summary["error_rate"]
    if not n:
        said = "No labels were given; they would test the corrected teacher"
    elif summary["label_trust"] == "checked":
        said = (
            f"The pick {FOLLOWS[summary['follows']]}: labels {IN_WORDS['checked']} correct that expectation"
            f" with weight {summary['kappa']:.2g}, and where they contradict the teacher, the teacher is"
            " doubted"
        )
    else:
        share = f"{percent(rate)} of the labels seem wrong" if rate >= 0.03 else "no label looks wrong"
        said = (
            f"The pick {FOLLOWS[summary['follows']]}: labels correct that expectation with weight"
            f" {summary['kappa']:.2g}; {share}"
        )
    if shape >= _NOTABLE:
        said += (
            f"; a candidate whose answers blur the classes is charged up to {shape:.2g} nats (by SoftmaxCorr;"
            " the more labels, the less)"
        )
    return f"{said}."
