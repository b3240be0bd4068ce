"""Turns: one at the counter, the slow step aside, visitors alternate, and neither the dead nor the clock hold
anybody up.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from pages.ui.jobs import turns
from pages.ui.jobs.control import Job, save_job
from pages.ui.jobs.turns import Turn, least_wait
from pages.ui.parts.progress import progress_words


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "WAIT_SECONDS", 0.01)


def ready(ahead: list[Path]) -> None:
    """Wait no longer than it takes to see that it is not our turn."""
    raise TimeoutError(len(ahead))


def turn(root: Path, visitor: str, job: str, kind: str = "check") -> Turn:
    return Turn(root / visitor, kind, job)


def test_one_at_a_time_and_in_the_order_of_arrival(tmp_path: Path) -> None:
    first, second = turn(tmp_path, "a", "1"), turn(tmp_path, "b", "2")
    first.line_up(ready)
    with pytest.raises(TimeoutError, match="1"):
        second.line_up(ready)
    second.leave()
    first.leave()
    second.line_up(ready)
    second.leave()
    assert not list((tmp_path / "queue").glob("*.ticket"))


def test_a_clock_that_is_set_back_lets_nobody_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = turn(tmp_path, "a", "1"), turn(tmp_path, "b", "2")
    first.line_up(ready)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    with pytest.raises(TimeoutError):
        second.line_up(ready)


def test_who_takes_long_steps_aside_but_not_everybody_at_once(tmp_path: Path) -> None:
    slow = [turn(tmp_path, f"v{i}", f"{i}") for i in range(4)]
    for one in slow[:2]:
        one.line_up(ready)
        assert one.step_aside()
    slow[2].line_up(ready)
    assert not slow[2].step_aside()  # two are beside already: it keeps the counter
    with pytest.raises(TimeoutError):
        slow[3].line_up(ready)
    slow[0].leave()
    assert slow[2].step_aside()
    slow[3].leave()
    turn(tmp_path, "v4", "4").line_up(ready)


def test_a_visitor_with_many_jobs_waits_between_them(tmp_path: Path) -> None:
    mine, mine_too, other = turn(tmp_path, "a", "1"), turn(tmp_path, "a", "2"), turn(tmp_path, "b", "3")
    order: list[str] = []
    mine.line_up(ready)

    def go(name: str, one: Turn) -> None:
        one.line_up(lambda ahead: None)
        order.append(name)
        one.leave()

    threads = [threading.Thread(target=go, args=("mine too", mine_too))]
    threads[0].start()
    time.sleep(0.1)
    threads.append(threading.Thread(target=go, args=("other", other)))
    threads[1].start()
    deadline = time.monotonic() + 20
    while len(list((tmp_path / "queue").glob("*.ticket"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    mine.leave()
    for thread in threads:
        thread.join(20)
    assert order == ["other", "mine too"]


def test_the_ticket_of_the_dead_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "queue" / "5~gone~check~x.ticket"
    left.parent.mkdir()
    left.touch()
    one = turn(tmp_path, "a", "1")
    one.line_up(ready)
    assert not left.exists()


def test_who_waits_is_told_for_how_long(tmp_path: Path) -> None:
    first, second = turn(tmp_path, "a", "1", "predict"), turn(tmp_path, "b", "2", "predict")
    told: list[float | None] = []

    def look(ahead: list[Path]) -> None:
        told.append(least_wait(ahead))
        save_job(tmp_path / "a", Job("predict", "1", state="running", seconds_left=180))
        if len(told) == 2:
            first.leave()

    first.line_up(ready)
    second.line_up(look)
    assert told[:2] == [None, 180]
    waiting = Job("predict", "x", ahead=1, wait=180)
    assert progress_words(waiting) == "Waiting for 1 other job to finish, about 3 min"
    assert "2 other jobs to finish, at least 3 min" in progress_words(replace(waiting, ahead=2))
    assert progress_words(replace(waiting, ahead=0)) == "Starting"


def test_short_work_does_not_wait_for_long_work(tmp_path: Path) -> None:
    turn(tmp_path, "a", "1", "study").line_up(ready)
    turn(tmp_path, "b", "2", "export").line_up(ready)
