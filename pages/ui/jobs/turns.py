"""Whose turn it is: visitors' jobs wait in a line, one at the counter, and whoever takes long steps aside for
the next.

Knows tickets and locks on disk, so that it holds between processes and outlives any of them. Knows nothing of
what a job does. Order is by number, never by the clock: a clock that jumps lets nobody in twice.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pages.ui.jobs.control import Job, stored_job
from pages.ui.workspace.folder import is_locked, locked, remove

TURN_SECONDS = 20.0  # at the counter; after that the next in line is served beside
WAIT_SECONDS = 0.3
# Minutes of work; reading a model, looking at images or writing a file takes seconds most of the time.
LONG = ("predict", "study", "weigh", "carry")
_BESIDE = {"queue": 2, "queue-long": 1}  # how many may have stepped aside: memory and cores are shared
_MARK = "~"
_GENTLE = 10  # niceness of a job that stepped aside


def queue_of(kind: str) -> str:
    """The folder of tickets a job waits in: minutes of work never stand before seconds of it."""
    return "queue-long" if kind in LONG else "queue"


class Turn:
    """One job's place in a queue, from lining up to leaving. Use as: `line_up`, `step_aside` now and then,
    `leave`.
    """

    def __init__(self, folder: Path, kind: str, job_id: str) -> None:
        self._queue = folder.parent / queue_of(kind)
        self._own = folder / "jobs" / f"{self._queue.name}.turn"
        self._owner = _MARK.join((folder.name, kind, job_id))
        self._ticket: Path | None = None
        self._handles: dict[str, int] = {}  # locks we hold: the visitor's own, the ticket's, a place beside

    def line_up(self, meanwhile: Callable[[list[Path]], None]) -> None:
        """Return when every earlier ticket is gone. `meanwhile` gets those that go first, and may raise.

        A visitor has one ticket a queue: who brings five jobs waits between them like everybody else.
        """
        while "own" not in self._handles and not self._take("own", self._own):
            meanwhile([path for path in self._tickets() if _owner(path)[0] == self._own.parents[1].name])
            time.sleep(WAIT_SECONDS)
        with locked(self._queue / "order.lock"):
            number = 1 + max(map(_number, self._tickets()), default=0)
            self._ticket = self._queue / f"{number}{_MARK}{self._owner}.ticket"
            self._take("ticket", self._ticket)
        while ahead := self._ahead(number):
            meanwhile(ahead)
            time.sleep(WAIT_SECONDS)

    def _tickets(self) -> list[Path]:
        return sorted(self._queue.glob("*.ticket"), key=_number)

    def _ahead(self, number: int) -> list[Path]:
        """The living before us. The ticket of a dead process is removed: nobody waits for the dead."""
        with locked(self._queue / "order.lock"):
            earlier = [path for path in self._tickets() if _number(path) < number]
            alive = [path for path in earlier if is_locked(path)]
            for path in set(earlier) - set(alive):
                remove(path)
        return alive

    def step_aside(self) -> bool:
        """Let the next job begin beside this one; False if as many as may have stepped aside already."""
        for place in range(_BESIDE.get(self._queue.name, 1)):
            if self._take("beside", self._queue / f"beside-{place}.lock"):
                with suppress(ProcessLookupError):  # of our own group, if we lead one
                    os.setpriority(os.PRIO_PGRP, os.getpid(), _GENTLE)
                self._drop_ticket()
                return True
        return False

    def leave(self) -> None:
        """Give back everything that was taken. A process that dies gives it back, too."""
        self._drop_ticket()
        for name in list(self._handles):
            os.close(self._handles.pop(name))

    def _drop_ticket(self) -> None:
        if self._ticket is not None:
            remove(self._ticket)
            os.close(self._handles.pop("ticket"))
            self._ticket = None

    def _take(self, name: str, path: Path) -> bool:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._handles[name] = handle
        return True


def least_wait(ahead: list[Path]) -> float | None:
    """Return the seconds that the work before this one still takes, as far as it says; None if none does."""
    stated = [
        job.seconds_left for job in map(_job, ahead) if job is not None and job.seconds_left is not None
    ]
    return sum(stated) if stated else None


def _job(ticket: Path) -> Job | None:
    visitor, kind = _owner(ticket)
    return stored_job(ticket.parent.parent / visitor, kind) if visitor else None


def _owner(ticket: Path) -> tuple[str, str]:
    """Whose job a ticket is for, and of which kind."""
    parts = ticket.stem.split(_MARK)
    return (parts[1], parts[2]) if len(parts) == 4 else ("", "")


def _number(ticket: Path) -> int:
    digits = ticket.stem.partition(_MARK)[0]
    return int(digits) if digits.isdigit() else 0
