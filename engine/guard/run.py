"""The parent's side of the guard: start the child, watch its clock and its folder, and say how it ended.

Knows one child at a time. What it may use is in `limits`, the words for its end in `ends`.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import engine
from engine.guard.child import RESULT
from engine.guard.ends import End, EndedError, sentence
from engine.guard.limits import STARTING, WAITING, Limits
from engine.guard.logs import MAX_BYTES, where, write_log
from engine.types import UserError

PREFIX = "anchorpoint-guard-"
_POLL = 0.1  # seconds between looks at the clock and the folder
_MAX_LINE = 1 << 16  # bytes of a report
_MAX_RESULT = 256 << 20  # bytes of what a function returns as JSON
_LOG, _LOCK = "stderr.log", "lock"
_ABANDONED = 60.0  # seconds after which an unlocked folder was left by a parent that was killed

OnReport = Callable[[str, int, int], None]  # stage, done, total (0 of 0 where nothing is counted)


@dataclass(frozen=True)
class Outcome:
    """What a guarded function returned, and the folder with the files it left; the folder is removed
    after.
    """

    result: Any
    folder: Path


@contextmanager
def guarded(
    task: str,
    arguments: Mapping[str, Any],
    *,
    subject: str,
    limits: Limits,
    on_report: OnReport | None = None,
) -> Iterator[Outcome]:
    """Run `task` ("engine.room.module:function") in a child process with limits and yield what it returned.

    The function is called as function(child, **arguments) with JSON-ready arguments, and returns the same;
    files go to `child.folder`. The child runs in that folder, so paths in `arguments` must be absolute.
    `subject` names the file for the sentence. Raises UserError for whatever went wrong: the function's own
    refusal as it is, any other end as EndedError, one sentence with the place of the log.
    """
    with _private_folder() as folder:
        end = _watch(folder, task, arguments, limits, on_report)
        if end.code == 0 and not end.stopped:
            yield Outcome(_answer(folder, end, subject, limits), folder)
            return
        raise _obituary(folder, end, subject, limits)


def _watch(
    folder: Path, task: str, arguments: Mapping[str, Any], limits: Limits, on_report: OnReport | None
) -> End:
    request = {
        "task": task,
        "arguments": dict(arguments),
        "limits": asdict(limits),
    }
    with (folder / _LOG).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.guard.child"],
            cwd=folder,
            env=child_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # an interrupt is the parent's to handle, and its children end with it
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with suppress(BrokenPipeError):  # a child that died at once shows in its exit code
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        return _Watch(process, process.stdout, folder, limits, on_report).until_the_end()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):
                pipe.close()


def child_environment(folder: str | Path) -> dict[str, str]:
    """Return what a child gets for an environment: ours, this engine before any other, its own temporary
    folder.
    """
    root = str(Path(engine.__file__).resolve().parent.parent)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join([root, *(os.path.abspath(part) for part in given if part)])
    return {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder)}


class _Watch:
    """Reads a child's reports and ends it when a stage takes too long or writes too much."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        reports: IO[bytes],
        folder: Path,
        limits: Limits,
        on_report: OnReport | None,
    ) -> None:
        self._process, self._reports, self._folder = process, reports, folder
        self._limits, self._on_report = limits, on_report
        self._stage, self._allowed = "starting", STARTING * limits.seconds
        self._since = time.monotonic()
        self._line = b""

    def until_the_end(self) -> End:
        os.set_blocking(self._reports.fileno(), False)
        while True:
            ready = select.select([self._reports], [], [], _POLL)[0]
            content = self._reports.read(_MAX_LINE) if ready else b""
            self._take(content or b"")
            if ready and not content and self._process.poll() is not None:
                return self._end("")
            if time.monotonic() - self._since > WAITING * self._allowed:
                return self._end("time")
            if _size(self._folder) > self._limits.output_bytes or len(self._line) > _MAX_LINE:
                return self._end("output")
            if ready and not content:  # closed, but not ended yet
                time.sleep(_POLL / 10)

    def _take(self, content: bytes) -> None:
        *lines, self._line = (self._line + content).split(b"\n")
        for line in lines:
            report = json.loads(line)
            if not report.get("goes_on"):
                self._since = time.monotonic()
            if "stage" in report:
                self._stage = str(report["stage"])
                self._allowed = self._limits.seconds * float(report["patience"])
            if self._on_report is not None:
                self._on_report(self._stage, int(report.get("done", 0)), int(report.get("total", 0)))

    def _end(self, stopped: str) -> End:
        if stopped:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait()
        lines = _log_text(self._folder).strip().splitlines()
        return End(
            code=code,
            stage=self._stage,
            stopped=stopped,
            allowed=self._allowed,
            last_words=lines[-1].strip() if lines else "",
        )


def _answer(folder: Path, end: End, subject: str, limits: Limits) -> Any:
    path = folder / RESULT
    if not path.is_file() or path.stat().st_size > _MAX_RESULT:
        raise _obituary(folder, End(None, end.stage), subject, limits)
    answer = json.loads(path.read_text(encoding="utf-8"))
    if "refused" in answer:
        raise UserError(*answer["refused"])
    return answer["result"]


def _obituary(folder: Path, end: End, subject: str, limits: Limits) -> EndedError:
    text = sentence(end, subject, limits)
    log = write_log(f"{text}\nexit code {end.code}, stage {end.stage}\n\n{_log_text(folder)}")
    error = EndedError(f"{text} {where(log)}")
    error.is_late = end.is_late
    return error


def _log_text(folder: Path) -> str:
    with suppress(OSError), (folder / _LOG).open("rb") as file:
        file.seek(max(0, (folder / _LOG).stat().st_size - MAX_BYTES))
        return file.read(MAX_BYTES).decode(errors="replace")
    return ""


def _size(folder: Path) -> int:
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):  # removed while we look
                total += os.lstat(os.path.join(base, name)).st_size
    return total


@contextmanager
def _private_folder() -> Iterator[Path]:
    """A folder of our own that is removed whatever happens; one that a killed parent left is removed by the
    next.
    """
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    try:
        with (folder / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # dies with us, so that a sweep can tell
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(place: Path) -> None:
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError), (folder / _LOCK).open("rb") as lock:
            if time.time() - folder.stat().st_mtime < _ABANDONED:
                continue
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
