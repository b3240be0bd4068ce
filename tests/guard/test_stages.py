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
    assert told == [{"stage": "reading the graph", "patience": 2.0}, {"done": 3, "total": 7}]
    assert not first
