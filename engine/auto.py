"""`calibrated` and `auto` as choices: the recommendation, its posterior, its doubt, and the reason in words.

Knows the policy. The arithmetic lives in calibrated and doubt.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.advice import warnings_for
from engine.calibrated import Calibrated, calibrate, posterior_summary
from engine.doubt import Doubt, doubt_of, doubt_record, draw_losses
from engine.estimators import pick_best
from engine.hypotheses import CalibratedPool, calibrated_pool
from engine.pool import FLOOR, PoolStatistics
from engine.selectors import runner_up_of
from engine.types import Bools, Choice, LabeledSample, Predictions

CALIBRATED, AUTO = "calibrated", "auto"
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
    method: str, predictions: Predictions, pool: PoolStatistics, sample: LabeledSample | None, *, admissible: Bools | None, floor: float
) -> Choice:
    """Run `calibrated` or `auto`; without labels both are label-free."""
    given = sample or NO_LABELS
    prepared = prepare(predictions, pool, floor=floor)
    verdict = calibrate(prepared, given)
    penalty = verdict.penalty if method == AUTO else np.zeros(len(verdict.scores))
    scores = np.where(admissible, verdict.scores + penalty, np.nan) if admissible is not None else verdict.scores + penalty
    pick, ties = pick_best(verdict.scores + penalty, "lower", admissible)
    doubt = doubt_of(draw_losses(verdict, penalty=penalty), pick, admissible=admissible)
    runner_up = runner_up_of(scores, pick)
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
            **posterior_summary(prepared, verdict),
            **doubt_record(doubt, pick, predictions.cost),
            "reasons": reasons(prepared, verdict, doubt, pick, given.n, shape=float(penalty.max())),
        },
    )
    return replace(choice, warnings=warnings_for(choice, n_classes=predictions.n_classes, labels=given.labels if given.n else None))


def reasons(pool: CalibratedPool, verdict: Calibrated, doubt: Doubt, pick: int, n: int, *, shape: float = 0.0) -> list[str]:
    """Say in three sentences why this candidate: what the reference looks like, what the labels did, how sure it is.

    `shape` is the largest penalty that output shape (SoftmaxCorr) added.
    """
    summary = posterior_summary(pool, verdict)
    temperature, rate = summary["temperature"], summary["error_rate"]
    tone = "overconfident" if temperature > 1.1 else "underconfident" if temperature < 0.9 else "about as confident as it should be"
    source = f"From {n} labels the" if n else "Before any label the"
    first = f"{source} teacher looks {tone} on this target (temperature {temperature:.2g}), so each candidate is judged by its expected loss under the teacher so corrected."
    if not n:
        second = "No labels were given; they would test the corrected teacher."
    else:
        share = f"{100 * rate:.0f} % of the labels seem wrong" if rate >= 0.03 else "the labels look clean"
        second = f"The labels correct that expectation with weight {verdict.kappa:.2g}; {share}."
    if shape > 0:
        second = f"{second[:-1]}, and outputs that tell classes apart less well cost a candidate up to {shape:.2g} (SoftmaxCorr, fading with labels)."
    third = (
        f"The pick is within {doubt.epsilon:g} of the best with {100 * doubt.close[pick]:.0f} % probability, and {len(doubt.same) - 1} other "
        f"candidate{'s' if len(doubt.same) != 2 else ''} cannot be told apart from it."
    )
    return [first, second, third]
