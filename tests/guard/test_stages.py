"""Stages: told to whoever listens, silent where nobody does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from engine.guard import stages


@pytest.fixture(autouse=True)
def nobody_listens_afterwards() -> Iterator[None]:
    yield
    stages._listener.clear()


def test_nobody_listens_outside_a_child() -> None:
    stages._listener.clear()
    stages.stage("reading")
    stages.progress(1, 2)


def test_stage_and_progress_reach_the_last_listener_only() -> None:
    first: list[dict[str, Any]] = []
    told: list[dict[str, Any]] = []
    stages.listen(first.append)
    stages.listen(told.append)
    stages.stage("reading the graph", patience=2.0)
    stages.progress(3, 7)
    stage = {"stage": "reading the graph", "patience": 2.0, "goes_on": False}
    assert told == [stage, {"done": 3, "total": 7}]
    assert not first


def test_a_stage_that_goes_on_keeps_the_longer_patience() -> None:
    told: list[dict[str, Any]] = []
    stages.listen(told.append)
    stages.stage("converting", patience=3.0)
    stages.stage("running", goes_on=True)
    stages.stage("reading")
    stages.stage("reading a little", patience=0.5)
    stages.stage("running a little", goes_on=True)
    stages.stage("running more", patience=2.0, goes_on=True)
    assert [report["patience"] for report in told] == [3.0, 3.0, 1.0, 0.5, 0.5, 2.0]
    assert [report["goes_on"] for report in told] == [False, True, False, False, True, True]
