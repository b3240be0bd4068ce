"""The process behind one job: waits its turn, does the task, and leaves progress and the outcome in the
session's folder.

Run as `python -m pages.ui.jobs.worker FOLDER KIND ID`. Whose turn it is, `turns` knows; how long and how much
a job may take, the host's settings.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from engine.types import UserError
from pages.ui.jobs.control import Job, State, cancel_file, lock_file, save_job, stored_job
from pages.ui.jobs.turns import Turn, least_wait
from pages.ui.workspace.folder import locked, remove

_SAVE_SECONDS = 0.3
_WAIT_SECONDS = 0.3  # between two looks at whether the job is wanted


class CancelledError(Exception):
    """The visitor asked to stop, or moved on so that nobody wants the result."""


class Desk:
    """What a task sees of its job: where to report progress, and whether anybody still waits for the
    result.
    """

    def __init__(self, folder: Path, job: Job) -> None:
        self.folder, self.job = folder, job
        self._saved = 0.0
        self._saving, self._is_finished = threading.Lock(), False
        self._looked, self._is_unwanted = 0.0, False
        self._begun = (0, 0, 0.0)  # of the stretch of work at hand: its total, where it began, and when

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

    def wait(self, ahead: list[Path]) -> None:
        """Say how many go first and how long they still need; raises CancelledError if nobody waits for the
        job any more.
        """
        if self._look():
            raise CancelledError
        wait = least_wait(ahead)
        told = (max(1, len(ahead)), None if wait is None else round(wait))
        if (self.job.ahead, self.job.wait) != told:
            self._save(replace(self.job, ahead=told[0], wait=told[1]))

    def begin(self) -> None:
        """Say that the job's turn has come."""
        self._save(replace(self.job, state="running", ahead=0, wait=None))

    def _save(self, job: Job) -> None:
        with self._saving:
            self.job = job
            if not self._is_finished:  # by the supervisor: its word is the last
                save_job(self.folder, job)

    def report(
        self,
        done: int,
        total: int,
        *,
        stage: str = "",
        rate: float | None = None,
        seconds_left: float | None = None,
    ) -> None:
        """Tell the page how far the job is; raises CancelledError if nobody waits for it any more. Without
        `seconds_left` the time left is taken from the pace so far.
        """
        if self.is_cancelled():
            raise CancelledError
        seconds_left = self._left(done, total) if seconds_left is None else seconds_left
        job = replace(self.job, done=done, total=total, stage=stage, rate=rate, seconds_left=seconds_left)
        if time.monotonic() - self._saved > _SAVE_SECONDS or done == total:
            self._saved = time.monotonic()
            self._save(job)
        else:
            self.job = job

    def _left(self, done: int, total: int) -> float | None:
        now = time.monotonic()
        if self._begun[0] != total or done < self._begun[1]:
            self._begun = (total, done, now)
        _, first, since = self._begun
        return (now - since) / (done - first) * (total - done) if total and done > first else None

    def finish(self, state: State, message: str = "") -> None:
        """Leave the outcome, unless another job has taken this one's place."""
        with self._saving:
            stored = stored_job(self.folder, self.job.kind)
            if not self._is_finished and stored is not None and stored.id == self.job.id:
                save_job(self.folder, replace(self.job, state=state, message=message))
            self._is_finished = True
        remove(cancel_file(self.folder, self.job.id))


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
        turn = Turn(folder, kind, job_id)
        try:
            turn.line_up(desk.wait)
            desk.begin()
            from pages.ui.jobs.supervisor import supervised
            from pages.ui.jobs.tasks import TASKS  # loads the engine, which a queued job does not need

            with supervised(desk, turn):
                TASKS[kind](desk, **job.arguments)
            desk.finish("done")
        except CancelledError:
            desk.finish("cancelled")
        except UserError as error:
            from pages.ui.show.words import in_fields

            desk.finish("cancelled" if desk.is_cancelled() else "failed", in_fields(error))
        except OSError as error:
            what = f"{Path(error.filename).name} " if error.filename else "a file "
            desk.finish("failed", f"{what}cannot be read or written ({error.strerror}). Check the disk.")
        finally:
            turn.leave()


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
