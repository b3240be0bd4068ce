"""What a person should do next about labels: which images to label, which labels to check, how many more
would help.

Joins the calibrated posterior with active labeling and the search for suspects. Computes nothing of its own.
"""

from __future__ import annotations

from engine.recommend.auto import NO_LABELS, prepare
from engine.recommend.calibrated import calibrate
from engine.recommend.doubt import recommendation
from engine.recommend.next_labels import label_next, labels_to_halve
from engine.recommend.suspects import Suspect, suspects
from engine.rules.statistics import PoolStatistics
from engine.types import Bools, LabeledSample, LabelTrust, Predictions

BATCH = 12  # images suggested at a time


def rows_to_label(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample | None,
    *,
    admissible: Bools | None = None,
    trust: LabelTrust = "normal",
    k: int = BATCH,
) -> tuple[int, ...]:
    """Return up to k unlabeled pool rows whose labels would tell most about which candidate is best, the most
    telling first.
    """
    given = sample or NO_LABELS
    prepared = prepare(predictions, pool)
    verdict = calibrate(prepared, given, trust)
    _, doubt = recommendation(verdict, admissible=admissible)
    return tuple(int(row) for row in label_next(prepared, verdict, doubt.best, given.rows, k).rows)


def labels_to_check(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample,
    *,
    admissible: Bools | None = None,
    trust: LabelTrust = "normal",
) -> tuple[Suspect, ...]:
    """Return labels that are almost certainly wrong, the least probable first."""
    prepared = prepare(predictions, pool)
    return tuple(suspects(prepared, calibrate(prepared, sample, trust), sample, admissible=admissible))


def more_labels(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample | None,
    *,
    admissible: Bools | None = None,
    trust: LabelTrust = "normal",
) -> int | None:
    """Return about how many further random labels would halve the expected regret; None if none of the tried
    numbers would.
    """
    given = sample or NO_LABELS
    prepared = prepare(predictions, pool)
    return labels_to_halve(prepared, calibrate(prepared, given, trust), given, admissible=admissible)
