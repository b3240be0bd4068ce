"""Whose turn it is: order, fairness between visitors, the running, the dead, and what one is told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pages.ui.jobs import turns
from pages.ui.jobs.control import Job, save_job
from pages.ui.jobs.turns import ahead_of, draw_ticket, least_wait
from pages.ui.parts.progress import progress_words
from pages.ui.workspace.folder import locked, new_id


class Visitor:
    """A session folder whose jobs stand in the queue, held by this process."""

    def __init__(self, root: Path, held: ExitStack) -> None:
        self.folder, self.held = root / new_id(), held

    def queue_up(self, kind: str = "predict") -> Path:
        job = Job(kind, new_id())
        save_job(self.folder, job)
        ticket = draw_ticket(self.folder, kind, job.id)
        self.held.enter_context(locked(ticket))
        return ticket

    def run(self, kind: str = "predict", seconds_left: float | None = None) -> None:
        save_job(self.folder, replace(Job(kind, "x"), state="running", seconds_left=seconds_left))


@pytest.fixture
def visitors(tmp_path: Path) -> Iterator[list[Visitor]]:
    with ExitStack() as held:
        yield [Visitor(tmp_path, held) for _ in range(3)]


def test_first_come_first_served(visitors: list[Visitor]) -> None:
    tickets = [visitor.queue_up() for visitor in visitors]
    assert [len(ahead_of(ticket)) for ticket in tickets] == [0, 1, 2]


def test_a_second_job_of_one_visitor_lets_others_go_first(visitors: list[Visitor]) -> None:
    greedy, other, _ = visitors
    first, second, late = greedy.queue_up("predict"), greedy.queue_up("study"), other.queue_up("predict")
    assert ahead_of(late) == [first]
    assert set(ahead_of(second)) == {first, late}


def test_nobody_is_kept_back_for_ever(visitors: list[Visitor], monkeypatch: pytest.MonkeyPatch) -> None:
    greedy, other, _ = visitors
    greedy.queue_up("predict")
    second = greedy.queue_up("study")
    now = turns.time.time_ns()
    monkeypatch.setattr(turns.time, "time_ns", lambda: now + (turns.HANDICAP_SECONDS + 1) * 10**9)
    assert second in ahead_of(other.queue_up())


def test_whoever_is_at_work_is_not_joined_by_an_earlier_number(visitors: list[Visitor]) -> None:
    greedy, other, _ = visitors
    with locked(draw_ticket(greedy.folder, "predict", "a")):
        running = greedy.queue_up("study")
    greedy.run("study")
    late = other.queue_up()
    assert late.name < running.name
    assert ahead_of(late) == [running]


def test_the_dead_are_cleared_away(visitors: list[Visitor]) -> None:
    ticket = visitors[0].queue_up()
    dead = ticket.parent / "0~gone~predict~x.ticket"
    dead.touch()
    assert ahead_of(ticket) == []
    assert not dead.exists()


def test_who_waits_is_told_for_how_long(visitors: list[Visitor]) -> None:
    first, second, third = visitors
    first.queue_up()
    ticket = second.queue_up()
    assert least_wait(ahead_of(ticket)) is None
    first.run(seconds_left=180)
    assert least_wait(ahead_of(ticket)) == 180
    waiting = Job("predict", "x", ahead=1, wait=180)
    assert progress_words(waiting) == "Waiting for 1 other job to finish, about 3 min"
    assert len(ahead_of(third.queue_up())) == 2
    assert "2 other jobs to finish, at least 3 min" in progress_words(replace(waiting, ahead=2))
    assert progress_words(replace(waiting, ahead=0)) == "Starting"


def test_short_work_does_not_wait_for_long_work(visitors: list[Visitor]) -> None:
    visitors[0].queue_up("study")
    assert ahead_of(visitors[1].queue_up("export")) == []
