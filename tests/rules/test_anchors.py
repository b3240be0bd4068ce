"""Anchors: the distortion on rows worked out by hand, the subsample's seed, and the rescaling."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.rules.anchors import ANCHORS, anchor_scores, mean_distortion, rescale
from engine.types import LabeledSample

TEACHER = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
CANDIDATES = np.array([TEACHER, [[0.25, 0.75], [0.9, 0.1], [0.5, 0.5]]])
# KL of row 0: half of log(.5/.25) and of log(.5/.75); of row 2: .2 log(.2/.5) + .8 log(.8/.5)
ROW_0 = 0.5 * math.log(2) + 0.5 * math.log(2 / 3)
ROW_2 = 0.2 * math.log(0.4) + 0.8 * math.log(1.6)
SAMPLE = LabeledSample(rows=np.array([0, 1]), labels=np.array([1, 0]))


@pytest.fixture
def pool() -> Any:
    return SimpleNamespace(
        candidates=CANDIDATES, distortion=np.array([0.0, 4.0]), transport=np.array([0.2, 0.3])
    )


def test_the_distortion_of_hand_worked_rows() -> None:
    assert mean_distortion(TEACHER, CANDIDATES, np.array([0])) == pytest.approx([0, ROW_0])
    assert mean_distortion(TEACHER, CANDIDATES, np.array([0, 1, 2])) == pytest.approx(
        [0, (ROW_0 + ROW_2) / 3]
    )


def test_a_probability_of_nought_is_floored() -> None:
    candidate = np.array([[[1.0, 0.0]]])
    expected = 0.5 * math.log(0.5) + 0.5 * math.log(0.5 / 1e-6)
    got = mean_distortion(TEACHER[:1], candidate, np.array([0]), floor=1e-6)
    assert got == pytest.approx([expected])


def test_each_kind_reads_what_it_says(pool: Any) -> None:
    assert anchor_scores("pool", TEACHER, pool, SAMPLE).tolist() == [0, 4]
    assert anchor_scores("sample", TEACHER, pool, SAMPLE) == pytest.approx([0, ROW_0 / 2])
    assert anchor_scores("cot", TEACHER, pool, SAMPLE).tolist() == [0, 4]  # .2 to .3 becomes 0 to 4
    drawn = np.random.Generator(np.random.PCG64(300_000 + 7_919 * 2 + 5)).choice(3, 2, replace=False)
    expected = np.mean([{0: ROW_0, 1: 0.0, 2: ROW_2}[int(row)] for row in drawn])
    assert anchor_scores("subsample", TEACHER, pool, SAMPLE, repetition=5) == pytest.approx([0, expected])
    assert set(ANCHORS) == {"pool", "sample", "subsample", "cot"}
    with pytest.raises(ValueError, match="unknown anchor"):
        anchor_scores("nonsense", TEACHER, pool, SAMPLE)


def test_rescaling_keeps_the_order_and_takes_the_range() -> None:
    assert rescale(np.array([3.0, 1.0, 2.0]), np.array([0.0, 10.0, 4.0])).tolist() == [10, 0, 5]
    assert rescale(np.ones(3), np.array([0.5, 2.0, 1.0])).tolist() == [0.5, 0.5, 0.5]
