"""`calibrated` and `auto` as choices: the recommendation, its posterior, its doubt, and the reason in words.

Knows the policy. The arithmetic lives in calibrated and doubt.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.recommend.advice import reservation, warnings_for
from engine.recommend.calibrated import calibrate
from engine.recommend.doubt import doubt_of, doubt_record, draw_losses
from engine.recommend.hypotheses import CalibratedPool, calibrated_pool
from engine.recommend.summary import posterior_summary, reasons
from engine.rules.label_free import pick_best
from engine.rules.statistics import FLOOR, PoolStatistics
from engine.rules.supervised import runner_up_of
from engine.types import Bools, Choice, Floats, LabeledSample, LabelTrust, Predictions, UserError

CALIBRATED, AUTO = "calibrated", "auto"
MAX_CLASSES = 4_000  # a (K, K) table is inverted: half a minute and a gigabyte there, hours at 20,000
CALIBRATED_RULES = {
    CALIBRATED: "Calibrated teacher",
    AUTO: "Recommended",
}
NO_LABELS = LabeledSample(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))


def memo_key(floor: float = FLOOR, class_shares: Floats | None = None) -> str:
    """Return under which name a pool's statistics keep its prepared hypotheses."""
    shares = "" if class_shares is None else ",".join(f"{share:.9g}" for share in class_shares)
    return f"{CALIBRATED}@{floor:g};{shares}"


def prepare(predictions: Predictions, pool: PoolStatistics, *, floor: float = FLOOR) -> CalibratedPool:
    """Return the family's prepared hypotheses; computed once per floor and kept with the pool's
    statistics.

    Raises UserError for more classes than can be held against each other.
    """
    n_classes = predictions.teacher.shape[1]
    if n_classes > MAX_CLASSES:
        raise UserError(
            f"there are {n_classes:,} classes; this rule holds every class against every other and takes up"
            f" to {MAX_CLASSES:,}.",
            "Use a rule that does not, e.g. val-ce or distortion.",
            option="method",
        )
    shares = predictions.class_shares
    key = memo_key(floor, shares)
    if key not in pool.memo:
        pool.memo[key] = calibrated_pool(predictions.teacher, pool, floor=floor, class_shares=shares)
    prepared: CalibratedPool = pool.memo[key]
    return prepared


def calibrated_choice(
    method: str,
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample | None,
    *,
    admissible: Bools | None,
    floor: float,
    trust: LabelTrust = "normal",
) -> Choice:
    """Run `calibrated` or `auto`; without labels both are label-free. `trust` says how the labels were
    made.
    """
    given = sample or NO_LABELS
    prepared = prepare(predictions, pool, floor=floor)
    verdict = calibrate(prepared, given, trust)
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
