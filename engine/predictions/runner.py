"""Many models over the pool: in this process when the work is small, otherwise on worker processes that keep
every core busy.

Knows scheduling, progress and stopping. One thread a worker, so that cores are never oversubscribed.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import engine
from engine.predictions.model import TEACHER, Job, Judge, UnusableModelError, batch_size
from engine.predictions.worker import send_job
from engine.types import UserError

_SMALL = 4.0  # seconds of work below which starting processes (about 0.5 s each) does not pay
_MANY_BATCHES = 2000  # more than this is never small, so nothing needs timing
_POLL = 0.2  # seconds between looks at the clock and at `cancel`
_PATIENCE = 10.0  # seconds a worker gets to finish its batch before it is ended


_Report = tuple["_Worker", dict[str, Any] | None]


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
            self.on_progress(ProgressReport(self.done, self.total, rate, left, self.stage))


def run_models(job: Job, names: Sequence[str], workers: int, watch: Watch) -> None:
    """Judge every named model, in this order, storing each result as it is finished; return early when told
    to stop.
    """
    if (
        job.n_raced and names and names[0] == TEACHER
    ):  # a race needs the teacher's answers from its first image on
        _run_here(job, names[:1], watch)
        names = names[1:]
    if not names or watch.stop():
        return
    n_workers = min(workers, len(names))
    if n_workers == 1 or _is_small(job, len(names)):
        _run_here(job, names, watch)
    else:
        _run_on_workers(job, names, n_workers, watch)


def _is_small(job: Job, n_models: int) -> bool:
    """Say whether all models together would take only a few seconds, judging by one batch of the teacher."""
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
            _give_up(name, str(error), error.n_left, watch)


def _give_up(name: str, reason: str, n_left: int, watch: Watch) -> None:
    if name == TEACHER:
        raise UserError(f"{reason}; its answers cannot be used. Check the preprocessing and the model file.")
    logging.getLogger(__name__).warning("%s; it counts as missing", reason)
    watch.total -= n_left


class _Worker:
    """A child process and the thread that hands it the job and passes its reports on; None follows the last
    report.
    """

    def __init__(self, job: Job, reports: queue.Queue[_Report]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        root = str(Path(engine.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.predictions.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._ready = False
        self._thread = threading.Thread(target=self._serve, args=(job, reports), daemon=True)
        self._thread.start()

    def _serve(self, job: Job, reports: queue.Queue[_Report]) -> None:
        with suppress(OSError):  # a child that died early shows in its closed stdout
            send_job(self._stdin, job)
        for line in self._stdout:
            reports.put((self, json.loads(line)))
        reports.put((self, None))

    def assign(self, name: str) -> None:
        """Have the worker judge one more model; only after it has reported that it is ready."""
        self._ready = True
        with suppress(OSError):
            self._stdin.write(f"{name}\n".encode())
            self._stdin.flush()

    def close(self) -> None:
        """Let the worker finish its batch and end; end it if it does not."""
        if self._ready:
            with suppress(OSError):
                self._stdin.close()
        else:
            self._process.kill()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        for pipe in (self._stdin, self._stdout, self._errors):
            with suppress(OSError):
                pipe.close()

    def obituary(self) -> Exception:
        """Return the error that explains why the worker is gone."""
        code = self._process.wait()
        if code < 0:
            return UserError(
                f"a worker process was ended by signal {-code}, most likely for lack of memory.",
                "What was finished is kept: run again, with fewer workers.",
                option="workers",
            )
        self._errors.seek(0)
        return RuntimeError(
            f"a worker process failed with code {code}:"
            f" {self._errors.read().decode(errors='replace')[-2000:]}"
        )


def _run_on_workers(job: Job, names: Sequence[str], n_workers: int, watch: Watch) -> None:
    reports: queue.Queue[_Report] = queue.Queue()
    waiting = deque(names)
    with ExitStack() as stack:
        active: set[_Worker] = set()
        for _ in range(n_workers):
            active.add(worker := _Worker(job, reports))
            stack.callback(worker.close)
        while active and not watch.stop():
            try:
                worker, report = reports.get(timeout=_POLL)
            except queue.Empty:
                continue
            if report is None:
                raise worker.obituary()
            if "images" in report:
                watch.images(report["images"])
                continue
            _take_note(report, watch)
            if waiting:
                worker.assign(waiting.popleft())
            else:
                active.discard(worker)


def _take_note(report: dict[str, Any], watch: Watch) -> None:
    """Act on a report that ends a model: nothing to do if it is done; otherwise fail or refuse."""
    if "refused" in report:
        raise UserError(*report["refused"])
    if "failed" in report:
        _give_up(report["failed"], report["reason"], report["n_left"], watch)
