"""A graph that may do other work for other images runs in a child: the same bits, and an end when it runs
wild.
"""

from __future__ import annotations

import numpy as np
import pytest

from engine.predictions.job import without_kernels
from engine.teacher import apart
from engine.teacher.apart import Way, opened
from engine.teacher.runtime import FAILURES
from engine.types import UserError
from tests.hostile.moody_graphs import moody
from tests.tiny_teacher import tiny_teacher

MEEK = np.random.default_rng(3).uniform(0, 1, (5, 3, 8, 8)).astype(np.float32)
BRIGHT = np.ones((1, 3, 8, 8), np.float32)
WAYS = (Way(), Way("disabled"), Way(all_threads=True), Way(reference=True))


@pytest.mark.parametrize("way", WAYS)
def test_the_bits_are_those_of_a_run_here(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = moody("loops").SerializeToString()
    run, other = opened(graph, way), opened(moody("swells").SerializeToString(), way)
    found, between, again = run(None, MEEK), other(None, MEEK), run(["y"], MEEK)
    monkeypatch.setattr(apart, "_is_steady", lambda graph: True)
    expected = opened(graph, way)(None, MEEK)
    for answer in (found, between, again):  # both graphs do nothing to the image before their one network
        np.testing.assert_array_equal(answer[0], expected[0])


def test_kernels_travel_too(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = tiny_teacher()
    kernels = {name: np.asarray(array, np.float32) for name, array in teacher.weights.items()}
    graph = without_kernels(teacher.graph, teacher.kernels)
    images = np.random.default_rng(1).standard_normal((2, 3, 16, 16)).astype(np.float32)
    expected = opened(graph, Way(), kernels)(None, images)[0]
    monkeypatch.setattr(apart, "_is_steady", lambda graph: False)
    np.testing.assert_array_equal(opened(graph, Way(), kernels)(None, images)[0], expected)


def test_what_the_runtime_says_comes_back() -> None:
    run = opened(moody("loops").SerializeToString(), Way())
    with pytest.raises(FAILURES, match="INVALID_ARGUMENT"):
        run(None, MEEK[:, :2])
    with pytest.raises(FAILURES, match="allocate memory"):
        opened(moody("swells").SerializeToString(), Way())(None, BRIGHT)
    assert run(None, MEEK)[0].shape == (5, 4)


@pytest.mark.slow
def test_what_loops_is_ended_and_the_next_one_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "1")
    run = opened(moody("loops").SerializeToString(), Way())
    with pytest.raises(UserError, match=r"running it on these images took longer than (3|12) s"):
        run(None, BRIGHT)
    assert run(None, MEEK)[0].shape == (5, 4)
