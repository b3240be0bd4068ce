"""A worker's process as its parent sees it: started, given models one by one, heard, mourned.

Knows pipes and exit codes. Knows nothing of what a model is.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import engine
from engine.guard import Limits
from engine.predictions.job import Job
from engine.predictions.worker import send_job
from engine.types import UserError

_PATIENCE = 10.0  # seconds a worker gets to finish its batch before it is ended

Report = tuple["WorkerProcess", dict[str, Any] | None]


class WorkerProcess:
    """A child process and the thread that hands it the job and passes its reports on; None follows the last
    report.
    """

    def __init__(self, job: Job, reports: queue.Queue[Report], limits: Limits) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        root = str(Path(engine.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.predictions.worker", json.dumps(asdict(limits))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self._ready, self._limits = False, limits
        self.task: str | None = None  # the model it is at
        self.n_done = 0  # images of that model
        self.heard = time.monotonic()
        self.verdict: str | None = None  # why the parent ended it
        self._thread = threading.Thread(target=self._serve, args=(job, reports), daemon=True)
        self._thread.start()

    def _serve(self, job: Job, reports: queue.Queue[Report]) -> None:
        with suppress(OSError):  # a child that died early shows in its closed stdout
            send_job(self._stdin, job)
        for line in self._stdout:
            reports.put((self, json.loads(line)))
        reports.put((self, None))

    def assign(self, name: str) -> None:
        """Have the worker judge one more model; only after it has reported that it is ready."""
        self._ready, self.task, self.n_done = True, name, 0
        with suppress(OSError):
            self._stdin.write(json.dumps(name).encode() + b"\n")
            self._stdin.flush()

    def dismiss(self) -> None:
        """Let the worker finish its batch and end, without waiting for it."""
        with suppress(OSError):
            self._stdin.close()

    def close(self) -> None:
        """Let the worker finish its batch and end; end it if it does not."""
        if self._ready:
            self.dismiss()
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

    def kill(self) -> None:
        """End the process at once; its closed stdout then reports the end as any other."""
        self._process.kill()

    def death(self) -> str:
        """Say in a few words how the process ended."""
        code = self._process.wait()
        if self.verdict:
            return self.verdict
        if code == -signal.SIGXCPU:
            return f"it took longer than {self._limits.seconds:.0f} s for one batch and was ended"
        if code == -signal.SIGKILL:
            return "its process was ended, most likely for lack of memory"
        return f"its runtime crashed ({signal.Signals(-code).name if code < 0 else f'code {code}'})"

    def obituary(self) -> Exception:
        """Return the error that explains why the worker is gone."""
        code = self._process.wait()
        if code < 0:
            return UserError(
                f"a model could not be judged: {self.death()}.",
                "What was finished is kept: run again with fewer workers, or check the model file.",
                option="workers",
            )
        self._errors.seek(0)
        return RuntimeError(
            f"a worker process failed with code {code}:"
            f" {self._errors.read().decode(errors='replace')[-2000:]}"
        )
