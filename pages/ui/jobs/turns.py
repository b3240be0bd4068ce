"""Whose turn it is: tickets in a folder, one queue for minutes of work and one for seconds of it.

A ticket is a file that its process holds locked, so the dead stand in nobody's way. Who already has work in a
queue draws a later number, so that one visitor's many jobs do not keep another's first one waiting.
"""

from __future__ import annotations

import time
from pathlib import Path

from pages.ui.jobs.control import Job, stored_job
from pages.ui.workspace.folder import is_locked, remove

# these take minutes; reading a model, looking at images or writing a file does not
LONG = ("predict", "study")
# For each living job of one's own in the queue, a new one counts as drawn this much later: others who come
# within that time go first, and nobody can be kept back for ever.
HANDICAP_SECONDS = 600
_MARK = "~"


def queue_of(kind: str) -> str:
    """The folder of tickets a job waits in: minutes of work never stand before seconds of it."""
    return "queue-long" if kind in LONG else "queue"


def draw_ticket(folder: Path, kind: str, job_id: str) -> Path:
    """Return the path of a new ticket for a session's job; the caller holds it locked while it waits and
    works.
    """
    queue = folder.parent / queue_of(kind)
    own = [other for other in queue.glob("*.ticket") if _owner(other)[0] == folder.name and is_locked(other)]
    number = time.time_ns() + len(own) * HANDICAP_SECONDS * 10**9
    return queue / f"{_MARK.join((str(number), folder.name, kind, job_id))}.ticket"


def ahead_of(ticket: Path) -> list[Path]:
    """Return the living tickets that go first: those with an earlier number, and whoever is at work. Tickets
    of the dead are removed.
    """
    others = [other for other in sorted(ticket.parent.glob("*.ticket")) if other != ticket]
    alive = []
    for other in others:
        is_earlier = other.name < ticket.name
        if not is_locked(other):
            if is_earlier:  # a later one may be about to be locked
                remove(other)
        elif is_earlier or _is_running(other):
            alive.append(other)
    return alive


def least_wait(ahead: list[Path]) -> float | None:
    """Return the seconds that the work before this one still takes, as far as it says; None if none does."""
    stated = [
        job.seconds_left for job in map(_job, ahead) if job is not None and job.seconds_left is not None
    ]
    return sum(stated) if stated else None


def _owner(ticket: Path) -> tuple[str, str]:
    parts = ticket.stem.split(_MARK)
    return (parts[1], parts[2]) if len(parts) == 4 else ("", "")


def _job(ticket: Path) -> Job | None:
    visitor, kind = _owner(ticket)
    return stored_job(ticket.parent.parent / visitor, kind) if visitor else None


def _is_running(ticket: Path) -> bool:
    job = _job(ticket)
    return job is not None and job.state == "running"
