"""Advice about labels: unlabeled rows only, planted wrong labels found, and the calibrated parts called as
they are.
"""

from __future__ import annotations

import numpy as np

from engine.decide.choose import statistics_of
from engine.recommend.label_advice import labels_to_check, more_labels, rows_to_label
from engine.rules.sampling import draw_sample
from engine.types import LabeledSample, Predictions


def test_suggests_rows_that_are_not_labeled_yet(family: Predictions) -> None:
    pool, sample = statistics_of(family), draw_sample(family.labels, 25, n_classes=10)
    rows = rows_to_label(family, pool, sample)
    assert len(set(rows)) == 12
    assert not set(rows) & set(sample.rows.tolist())
    assert len(rows_to_label(family, pool, None, k=5)) == 5


def test_lists_planted_wrong_labels_and_no_right_ones(family: Predictions) -> None:
    """On the three images of which the teacher is surest, and right, the label becomes what it finds least
    likely.
    """
    pool, clean = statistics_of(family), draw_sample(family.labels, 60, n_classes=10)
    teacher = family.teacher[clean.rows]
    surest = [i for i in np.argsort(-teacher.max(axis=1)) if teacher[i].argmax() == clean.labels[i]][:3]
    planted = clean.labels.copy()
    planted[surest] = teacher[surest].argmin(axis=1)
    sample = LabeledSample(clean.rows, planted)
    found = labels_to_check(family, pool, sample)
    assert found
    assert {suspect.row for suspect in found} <= set(clean.rows[surest].tolist())
    assert all(suspect.likely == family.labels[suspect.row] for suspect in found)
    assert labels_to_check(family, pool, sample, trust="checked") == ()


def test_says_how_many_more_or_none(family: Predictions) -> None:
    more = more_labels(family, statistics_of(family), draw_sample(family.labels, 10, n_classes=10))
    assert more is None or more >= 0
    assert isinstance(np.int64(0) if more is None else more, int | np.integer)
