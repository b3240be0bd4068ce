"""`calibrated` and `auto` as choices: the recommendation, its posterior, its doubt, and the reason in words.

Knows the policy. The arithmetic lives in calibrated and doubt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from engine.recommend.advice import reservation, warnings_for
from engine.recommend.calibrated import calibrate, posterior_summary
from engine.recommend.doubt import Doubt, doubt_of, doubt_record, draw_losses
from engine.recommend.hypotheses import CalibratedPool, calibrated_pool
from engine.rules.label_free import pick_best
from engine.rules.statistics import FLOOR, PoolStatistics
from engine.rules.supervised import runner_up_of
from engine.types import Bools, Choice, LabeledSample, Predictions

CALIBRATED, AUTO = "calibrated", "auto"
_TONE = 0.05  # confidence minus accuracy that counts as too sure or not sure enough
CALIBRATED_RULES = {
    CALIBRATED: "Calibrated anchor",
    AUTO: "Recommended",
}
NO_LABELS = LabeledSample(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def prepare(predictions: Predictions, pool: PoolStatistics, *, floor: float = FLOOR) -> CalibratedPool:
    """Return the family's prepared hypotheses; computed once per pool statistics and kept with them."""
    if CALIBRATED not in pool.memo:
        pool.memo[CALIBRATED] = calibrated_pool(predictions.teacher, pool, floor=floor)
    prepared: CalibratedPool = pool.memo[CALIBRATED]
    return prepared


def calibrated_choice(
    method: str,
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample | None,
    *,
    admissible: Bools | None,
    floor: float,
) -> Choice:
    """Run `calibrated` or `auto`; without labels both are label-free."""
    given = sample or NO_LABELS
    prepared = prepare(predictions, pool, floor=floor)
    verdict = calibrate(prepared, given)
    penalty = verdict.penalty if method == AUTO else np.zeros(len(verdict.scores))
    scores = (
        np.where(admissible, verdict.scores + penalty, np.nan)
        if admissible is not None
        else verdict.scores + penalty
    )
    pick, ties = pick_best(verdict.scores + penalty, "lower", admissible)
    doubt = doubt_of(draw_losses(verdict, penalty=penalty), pick, admissible=admissible)
    runner_up, summary = runner_up_of(scores, pick), posterior_summary(prepared, verdict)
    choice = Choice(
        method=method,
        index=pick,
        name=predictions.names[pick],
        scores=scores,
        ties=ties,
        runner_up=runner_up,
        margin=None if runner_up is None else float(scores[runner_up] - scores[pick]),
        n_labels=given.n,
        anchor=np.where(np.isnan(scores), np.nan, verdict.anchor + penalty),
        supervised=np.where(np.isnan(scores), np.nan, verdict.correction),
        coefficient=verdict.kappa,
        details={
            **summary,
            **doubt_record(doubt, pick, predictions.cost),
            "reservation": reservation(float(verdict.scores[pick]), predictions.n_classes, given.labels),
            "reasons": reasons(summary, doubt, pick, given.n, shape=float(penalty.max())),
        },
    )
    return replace(
        choice,
        warnings=warnings_for(
            choice, n_classes=predictions.n_classes, labels=given.labels if given.n else None
        ),
    )


def reasons(summary: Mapping[str, Any], doubt: Doubt, pick: int, n: int, *, shape: float = 0.0) -> list[str]:
    """Say in three sentences why this candidate: what the reference looks like, what the labels did, how sure
    it is.

    `summary` is that of the posterior; `shape` is the largest penalty that output shape (SoftmaxCorr) added.
    """
    confidence, accuracy, rate = (
        summary["teacher_confidence"],
        summary["teacher_accuracy"],
        summary["error_rate"],
    )
    gap = confidence - accuracy
    tone = (
        "overconfident"
        if gap > _TONE
        else "underconfident"
        if gap < -_TONE
        else "about as confident as it should be"
    )
    opening = f"From {n} labels the teacher looks" if n else "Before any label the teacher is presumed"
    first = (
        f"{opening} {tone} on this target (its confidence averages {100 * confidence:.0f} %, and about"
        f" {100 * accuracy:.0f} % of its answers should be right), so each candidate is judged by its"
        " expected loss under the teacher so corrected."
    )
    if not n:
        second = "No labels were given; they would test the corrected teacher."
    else:
        share = f"{100 * rate:.0f} % of the labels seem wrong" if rate >= 0.03 else "no label noise shows"
        second = f"The labels correct that expectation with weight {summary['kappa']:.2g}; {share}."
    if shape > 0:
        second = (
            f"{second[:-1]}, and outputs that tell classes apart less well cost a candidate up to {shape:.2g}"
            " (SoftmaxCorr, fading with labels)."
        )
    third = (
        f"The pick is within {doubt.epsilon:g} of the best with {100 * doubt.close[pick]:.0f} % probability,"
        f" and {len(doubt.same) - 1} other candidate{'s' if len(doubt.same) != 2 else ''} cannot be told"
        " apart from it."
    )
    return [first, second, third]
