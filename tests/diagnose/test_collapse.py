"""The Collapse page's tables, against the diagnostics they are made of and by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.decide.choose import statistics_of
from engine.decide.decision import decide
from engine.diagnose.collapse import atc_table, collapse_report, reliability_table
from engine.diagnose.health import candidate_health
from engine.predictions.file import make_predictions
from engine.rules.label_free import atc_mc
from engine.rules.sampling import draw_sample
from engine.types import LabeledSample, Predictions


def test_report_with_labels_is_no_proxy(family: Predictions) -> None:
    pool, sample = statistics_of(family), draw_sample(family.labels, 50, n_classes=10)
    report = collapse_report(family, pool, sample, decide(family, pool, sample, skip=("cot",)).candidates)
    health = candidate_health(pool, sample)
    assert not report.is_proxy
    assert report.n_labels == 50
    assert report.n_collapsed == int(health.collapsed.sum()) > 0
    assert report.chance == 0.1
    assert np.array_equal(report.health["quality"], health.quality)
    assert (report.health["low"] <= report.health["quality"]).all()
    teacher_hits = np.argmax(family.teacher[sample.rows], axis=1) == sample.labels
    assert report.teacher_quality == pytest.approx(teacher_hits.mean())
    assert report.rates["n_candidates"].sum() == 72
    assert report.regime.kind == "overconfident"


def test_report_without_labels_is_a_proxy(family: Predictions) -> None:
    pool = statistics_of(family)
    report = collapse_report(family, pool, None, decide(family, pool, None, skip=("cot",)).candidates)
    assert report.is_proxy
    assert report.teacher_quality == 1.0
    assert np.allclose(report.health["quality"], report.health["agreement"])


def test_atc_table_shows_what_ties_do() -> None:
    teacher = np.tile([0.9, 0.1], (8, 1))
    # sure of the other class on every row: all rows tie at confidence 1
    saturated = np.tile([0.0, 1.0], (8, 1))
    predictions = make_predictions(teacher, np.stack([saturated, teacher]))
    pool = statistics_of(predictions)
    row = atc_table(pool, predictions.names).iloc[0]
    assert row["score_loose"] == atc_mc(pool).max() == 1.0
    assert row["score_strict"] == pytest.approx(atc_mc(pool, strict=True).max())


def test_reliability_bins_by_hand() -> None:
    probs = np.array([[0.7, 0.3], [0.7, 0.3], [0.95, 0.05], [0.95, 0.05]])
    predictions = make_predictions(probs, probs[None])
    sample = LabeledSample(np.arange(4), np.array([0, 1, 0, 0]))
    bins = reliability_table(predictions, sample, {"teacher": None, "pick": 0})
    assert set(bins["model"]) == {"teacher", "pick"}
    teacher = bins[bins["model"] == "teacher"]
    assert list(teacher["accuracy"]) == [0.5, 1.0]
    assert list(teacher["count"]) == [2, 2]
    assert teacher["ece"].iloc[0] == pytest.approx(0.5 * 0.2 + 0.5 * 0.05)
