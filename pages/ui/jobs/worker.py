"""The process behind one job: waits its turn, does the task, and leaves progress and the outcome in the
session's folder.

Run as `python -m pages.ui.jobs.worker FOLDER KIND ID`. Work of several visitors runs
one long and one short job at a time, so that nobody's long job keeps others from theirs.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from engine.types import UserError
from pages.ui.jobs.control import Job, cancel_file, lock_file, save_job, stored_job
from pages.ui.workspace.folder import is_locked, locked, remove

_SAVE_SECONDS = 0.3
_WAIT_SECONDS = 0.3
# these take minutes; reading a model, looking at images or writing a file does not
_LONG = (
    "predict",
    "study",
)


class CancelledError(Exception):
    """The visitor asked to stop, or moved on so that nobody wants the result."""


class Desk:
    """What a task sees of its job: where to report progress, and whether anybody still waits for the
    result.
    """

    def __init__(self, folder: Path, job: Job) -> None:
        self.folder, self.job = folder, job
        self._saved = 0.0
        self._looked, self._is_unwanted = 0.0, False

    def is_cancelled(self) -> bool:
        """Whether to stop: asked to, or another job took this one's place. Looks at the disk a few times a
        second at most.
        """
        if not self._is_unwanted and time.monotonic() - self._looked > _WAIT_SECONDS:
            self._looked = time.monotonic()
            self._is_unwanted = self._look()
        return self._is_unwanted

    def _look(self) -> bool:
        stored = stored_job(self.folder, self.job.kind)
        return stored is None or stored.id != self.job.id or cancel_file(self.folder, self.job.id).exists()

    def report(
        self,
        done: int,
        total: int,
        *,
        stage: str = "",
        rate: float | None = None,
        seconds_left: float | None = None,
    ) -> None:
        """Tell the page how far the job is; raises CancelledError if nobody waits for it any more."""
        if self.is_cancelled():
            raise CancelledError
        self.job = replace(
            self.job, done=done, total=total, stage=stage, rate=rate, seconds_left=seconds_left
        )
        if time.monotonic() - self._saved > _SAVE_SECONDS or done == total:
            self._saved = time.monotonic()
            save_job(self.folder, self.job)

    def finish(self, state: str, message: str = "") -> None:
        """Leave the outcome, unless another job has taken this one's place."""
        stored = stored_job(self.folder, self.job.kind)
        if stored is not None and stored.id == self.job.id:
            save_job(self.folder, replace(self.job, state=state, message=message))  # type: ignore[arg-type]
        remove(cancel_file(self.folder, self.job.id))


def queue_of(kind: str) -> str:
    """The folder of tickets a job waits in: minutes of work never stand before seconds of it."""
    return "queue-long" if kind in _LONG else "queue"


def wait_for_turn(desk: Desk, queue: Path, ticket: Path) -> None:
    """Return when every earlier ticket is gone. A ticket whose process died is removed, so nobody waits for
    the dead.
    """
    while True:
        earlier = [other for other in sorted(queue.glob("*.ticket")) if other.name < ticket.name]
        alive = [other for other in earlier if is_locked(other)]
        for other in set(earlier) - set(alive):
            remove(other)
        if not alive:
            return
        if desk._look():
            raise CancelledError
        if desk.job.ahead != len(alive):
            desk.job = replace(desk.job, ahead=len(alive))
            save_job(desk.folder, desk.job)
        time.sleep(_WAIT_SECONDS)


def work(folder: Path, kind: str, job_id: str) -> None:
    """Do one job from the queue to its outcome. An unexpected error ends the process and is left in the
    log.
    """
    with locked(lock_file(folder, kind)):
        job = stored_job(folder, kind)
        if job is None or job.id != job_id:
            return
        desk = Desk(folder, replace(job, pid=os.getpid()))
        save_job(folder, desk.job)
        ticket = folder.parent / queue_of(kind) / f"{time.time_ns()}-{job_id}.ticket"
        try:
            with locked(ticket):
                wait_for_turn(desk, ticket.parent, ticket)
                desk.job = replace(desk.job, state="running", ahead=0)
                save_job(folder, desk.job)
                from pages.ui.jobs.tasks import TASKS  # loads the engine, which a queued job does not need

                TASKS[kind](desk, **job.arguments)
            desk.finish("done")
        except CancelledError:
            desk.finish("cancelled")
        except UserError as error:
            from pages.ui.show.words import in_fields

            desk.finish("cancelled" if desk.is_cancelled() else "failed", in_fields(error))
        finally:
            remove(ticket)


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
