"""Many models over the pool: in this process when the work is small, otherwise on worker processes that keep
every core busy.

Knows scheduling, progress and stopping. One thread a worker, so that cores are never oversubscribed.
"""

from __future__ import annotations

import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from engine.guard import WAITING, limits_for
from engine.predictions.job import FILE_PREFIX, TEACHER, Job, batch_size
from engine.predictions.memory import judging_limit, largest_model
from engine.predictions.model import Judge, UnusableModelError
from engine.predictions.worker_process import Report, WorkerProcess
from engine.teacher.steady import is_steady
from engine.types import UserError

_SMALL = 4.0  # seconds of work below which starting processes (about 0.5 s each) does not pay
_MANY_BATCHES = 2000  # more than this is never small, so nothing needs timing
_POLL = 0.2  # seconds between looks at the clock and at `cancel`


@dataclass(frozen=True)
class ProgressReport:
    """How far a run is. `done` and `total` count images times models; work found in the store counts as
    done.
    """

    done: int
    total: int
    images_per_second: float
    seconds_left: float | None
    stage: str


@dataclass(eq=False)
class Watch:
    """Progress out, stop signals in."""

    total: int
    done: int
    on_progress: Callable[[ProgressReport], None] | None = None
    cancel: Callable[[], bool] | None = None
    deadline: float | None = None  # of time.monotonic()
    stage: str = ""
    failures: dict[str, str] = field(default_factory=dict)  # model -> why it has no result
    _started: float = field(default_factory=time.monotonic)
    _fresh: int = 0

    def stop(self) -> bool:
        """Say whether the run must end now: cancelled, or out of time."""
        late = self.deadline is not None and time.monotonic() >= self.deadline
        return late or (self.cancel is not None and self.cancel())

    def images(self, n: int) -> None:
        """Count n more images and report."""
        self.done += n
        self._fresh += n
        if self.on_progress is not None:
            rate = self._fresh / max(time.monotonic() - self._started, 1e-9)
            left = (self.total - self.done) / rate
            if self.deadline is not None:
                left = max(0.0, min(left, self.deadline - time.monotonic()))
            self.on_progress(
                ProgressReport(
                    done=self.done,
                    total=self.total,
                    images_per_second=rate,
                    seconds_left=left,
                    stage=self.stage,
                )
            )


def run_models(job: Job, names: Sequence[str], workers: int, watch: Watch) -> None:
    """Judge every named model, in this order, storing each result as it is finished; return early when told
    to stop.
    """
    steady = job.teacher is not None and is_steady(job.graph)
    if job.n_raced and names and names[0] == TEACHER:
        # a race needs the teacher's answers from its first image on
        if steady:
            _run_here(job, names[:1], watch)
        else:
            _Crew(job, names[:1], watch, 1).run()
        names = names[1:]
    if not names or watch.stop():
        return
    n_workers = min(workers, len(names))
    # What is not steady, and a file from outside, never runs in this process: it may loop, swell or crash.
    here = steady and not any(name in job.files for name in names)
    if here and (n_workers == 1 or _is_small(job, len(names))):
        _run_here(job, names, watch)
    else:
        _Crew(job, names, watch, n_workers).run()


def _is_small(job: Job, n_models: int) -> bool:
    """Say whether all models together would take only a few seconds, judging by one batch of the teacher."""
    assert job.teacher is not None
    batches = job.n_images / batch_size(job.teacher.preprocessing)
    if n_models * batches > _MANY_BATCHES:
        return False
    return Judge(job).rehearse() * n_models < _SMALL


def _run_here(job: Job, names: Sequence[str], watch: Watch) -> None:
    judge = Judge(job)
    for name in names:
        try:
            if not judge.judge(name, watch.stop, watch.images):
                return
        except UnusableModelError as error:
            give_up(name, str(error), error.n_left, watch)


def give_up(name: str, reason: str, n_left: int, watch: Watch) -> None:
    """Note that a model has no result, and why; a run without its teacher ends here."""
    if name == TEACHER:
        raise UserError(
            f"the teacher cannot be judged: {reason}. Check the preprocessing and the model file."
        )
    title = name.removeprefix(FILE_PREFIX)
    logging.getLogger(__name__).warning("%s counts as missing: %s", title, reason)
    watch.failures[name] = reason
    watch.total -= n_left


class _Crew:
    """Worker processes that judge the waiting models; one that dies at a file is replaced, and the file is
    given up.
    """

    def __init__(self, job: Job, names: Sequence[str], watch: Watch, n_workers: int) -> None:
        self._job, self._watch, self._waiting = job, watch, deque(names)
        self._reports: queue.Queue[Report] = queue.Queue()
        self._active: set[WorkerProcess] = set()
        self._n_workers = n_workers
        memory = judging_limit(job, n_workers)
        self._limits = limits_for("judge", memory=memory, n_bytes=largest_model(job))

    def run(self) -> None:
        """Judge all of them, or return when told to stop."""
        with ExitStack() as stack:
            for _ in range(self._n_workers):
                self._hire(stack)
            while self._active and not self._watch.stop():
                self._end_silent()
                try:
                    worker, report = self._reports.get(timeout=_POLL)
                except queue.Empty:
                    continue
                worker.heard = time.monotonic()
                if report is None:
                    self._bury(worker, stack)
                elif "images" in report:
                    worker.n_done += report["images"]
                    self._watch.images(report["images"])
                else:
                    _take_note(report, self._watch)
                    self._employ(worker)

    def _hire(self, stack: ExitStack) -> None:
        worker = WorkerProcess(self._job, self._reports, self._limits)
        self._active.add(worker)
        stack.callback(worker.close)

    def _employ(self, worker: WorkerProcess) -> None:
        if self._waiting:
            worker.assign(self._waiting.popleft())
        else:
            self._active.discard(worker)
            worker.dismiss()  # it ends while others work

    def _bury(self, worker: WorkerProcess, stack: ExitStack) -> None:
        """Go on without the file that a worker died of; raise if it died of anything else."""
        if worker not in self._active:  # it had nothing left to do
            return
        self._active.discard(worker)
        name = worker.task
        if name is None or name not in self._job.files:
            raise worker.obituary()
        left = max(0, self._job.n_images - worker.n_done)
        give_up(name, worker.death(), left, self._watch)
        if self._waiting:
            self._hire(stack)

    def _end_silent(self) -> None:
        """End workers that a model keeps waiting without an answer: a batch has its processor seconds, and a
        wall clock that lets a busy machine be slow.
        """
        patience = WAITING * self._limits.seconds
        for worker in self._active:
            late = time.monotonic() - worker.heard > patience
            if late and worker.task is not None and worker.verdict is None:
                worker.verdict = f"it gave no answer for {patience:.0f} seconds and was ended"
                worker.kill()


def _take_note(report: dict[str, Any], watch: Watch) -> None:
    """Act on a report that ends a model: nothing to do if it is done; otherwise fail or refuse."""
    if "refused" in report:
        raise UserError(*report["refused"])
    if "failed" in report:
        give_up(report["failed"], report["reason"], report["n_left"], watch)
