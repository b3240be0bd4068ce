"""Background work as the pages see it: start, watch, cancel, resume. The work itself runs in a process of its
own (`pages.ui.jobs.worker`).

A job is a JSON file in the session's folder and a lock its process holds; both outlive the browser and the
server.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from engine.types import UserError
from pages.ui.workspace.folder import DISK_FULL, is_full, is_locked, new_id, read_json, remove, write_json

State = Literal["queued", "running", "done", "failed", "cancelled", "interrupted"]
_STARTUP_SECONDS = 20.0  # a new process may take this long to take its lock before it counts as lost
_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Job:
    """One piece of background work: what it is and how far it has come."""

    kind: str
    id: str
    arguments: dict[str, Any] = field(default_factory=dict)
    state: State = "queued"
    stage: str = ""
    done: int = 0
    total: int = 0
    rate: float | None = None  # units per second in this run
    seconds_left: float | None = None
    created: float = 0.0
    ahead: int = 0  # jobs that go first
    wait: float | None = None  # seconds those still need, as far as they say
    message: str = ""
    pid: int = 0  # of the worker, for whoever reads the file; whether it lives is told by its lock

    @property
    def is_alive(self) -> bool:
        return self.state in ("queued", "running")

    @property
    def fraction(self) -> float:
        return min(self.done / self.total, 1.0) if self.total else 0.0


def job_file(folder: Path, kind: str) -> Path:
    return folder / "jobs" / f"{kind}.json"


def lock_file(folder: Path, kind: str) -> Path:
    return folder / "jobs" / f"{kind}.lock"


def cancel_file(folder: Path, job_id: str) -> Path:
    return folder / "jobs" / f"{job_id}.cancel"


def log_file(folder: Path, kind: str) -> Path:
    return folder / "jobs" / f"{kind}.log"


def save_job(folder: Path, job: Job) -> None:
    """Write the job's file in one step."""
    write_json(job_file(folder, job.kind), asdict(job))


def stored_job(folder: Path, kind: str) -> Job | None:
    """Read the job's file as it stands; one that is damaged is no job, and can be started anew."""
    try:
        values = read_json(job_file(folder, kind))
        return None if values is None else Job(**values)
    except (UserError, TypeError):
        return None


def job_of(folder: Path, kind: str) -> Job | None:
    """Return the latest job of this kind, with the truth about its process: a job whose process died is
    failed or interrupted.
    """
    job = stored_job(folder, kind)
    if job is None or not job.is_alive or is_locked(lock_file(folder, kind)):
        return job
    # a clock that was set back must not make a lost process look young
    if not job.pid and 0 <= time.time() - job.created < _STARTUP_SECONDS:
        return job
    job = stored_job(folder, kind)  # it may have finished between the two looks
    if job is None or not job.is_alive:
        return job
    if is_full(folder):  # then neither its outcome nor its log could be written
        return replace(job, state="interrupted", message=DISK_FULL)
    crash = _crash_line(log_file(folder, kind))
    return replace(job, state="failed", message=crash) if crash else replace(job, state="interrupted")


def start(folder: Path, kind: str, **arguments: Any) -> Job:
    """Start a process for this work; an unfinished job of the same kind is cancelled first. Returns at
    once. Raises UserError if the disk or the visitor's part of it is full.
    """
    from pages.ui.workspace.hosting import hosting  # a waiting worker does without what it needs
    from pages.ui.workspace.quota import check_room

    check_room(folder, hosting())
    cancel(folder, kind)
    job = Job(kind, new_id(), arguments, created=time.time())
    save_job(folder, job)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(_ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    with log_file(folder, kind).open("wb") as log:
        # A session of its own: the worker goes on when the server is stopped.
        subprocess.Popen(
            [sys.executable, "-m", "pages.ui.jobs.worker", str(folder), kind, job.id],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return job


def resume(folder: Path, kind: str) -> Job:
    """Start the job again with the same arguments; what it had finished is found on disk."""
    job = stored_job(folder, kind)
    if job is None:
        raise ValueError(f"there is no {kind} job to resume")
    return start(folder, kind, **job.arguments)


def cancel(folder: Path, kind: str) -> None:
    """Ask a living job to stop at its next step."""
    job = stored_job(folder, kind)
    if job is not None and job.is_alive:
        cancel_file(folder, job.id).touch()


def stop_all(folder: Path) -> None:
    """End every job of the folder now: it is about to be moved. What they had finished is kept, and each can
    be resumed.
    """
    for path in (folder / "jobs").glob("*.json"):
        job = stored_job(folder, path.stem)
        if job is None or not is_locked(lock_file(folder, job.kind)):
            continue
        cancel(folder, job.kind)
        if job.pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(job.pid, signal.SIGKILL)
        save_job(folder, replace(job, state="interrupted"))


def forget(folder: Path, kind: str) -> None:
    """Cancel the job and drop its file, so that a result it may still produce is not taken up."""
    cancel(folder, kind)
    remove(job_file(folder, kind))


def _crash_line(log: Path) -> str:
    """The last line of a traceback in the log, or nothing if the process left no traceback (it was
    killed).
    """
    if not log.is_file():
        return ""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1][:500] if any(line.startswith("Traceback") for line in lines) else ""
