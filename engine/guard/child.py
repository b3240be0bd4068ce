"""The child process: takes its limits, runs one named function of ours, and leaves what it returned as JSON.

Run as `python -m engine.guard.child`. Plain data in (one JSON line on stdin), reports out (JSON lines), no
pickle. When stdin closes, the parent is gone: the child removes its folder and ends.
"""

from __future__ import annotations

import errno
import faulthandler
import importlib
import json
import math
import os
import resource
import shutil
import site
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from engine.guard.limits import STARTING, Limits
from engine.guard.stages import Child, listen, stage
from engine.types import UserError

RESULT = "result.json"
FAILED = 70  # exit code after an exception that is no UserError; its traceback is on stderr
TOO_LARGE = 72  # exit code after writing beyond the limit; Python ignores the signal for it
NO_MEMORY = 71  # exit code after a MemoryError, or a library's word for one
_WORDS_FOR_MEMORY = (
    "bad_alloc",
    "bad allocation",
    "failed to allocate memory",
    "can't allocate memory",
    "oom when allocating",
    "could not create a memory object",
)


def main() -> int:
    """Run the function that stdin names; return the exit code."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print belongs in the log
    faulthandler.enable()
    sys.excepthook = end_with
    folder = Path.cwd()
    _move_in(folder)
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        _leave(folder)
    request: dict[str, Any] = json.loads(line)
    limits = Limits(**request["limits"])
    set_limits(limits)
    listen(_teller(reports, limits))
    threading.Thread(target=_outlive_nobody, args=(folder,), daemon=True).start()
    stage("starting", patience=STARTING)
    try:
        answer = {"result": named_function(request["task"])(Child(folder), **request["arguments"])}
    except UserError as error:
        answer = {"refused": error.args}
    (folder / RESULT).write_text(json.dumps(answer), encoding="utf-8")
    return 0


def _move_in(folder: Path) -> None:
    """Make the folder our home: some libraries write settings and caches there when they are imported."""
    os.environ["PYTHONUSERBASE"] = site.getuserbase()  # where a user's packages are, found by the home before
    os.environ["HOME"] = str(folder)


def end_with(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Take the place of Python's last resort: the traceback to the log, the kind of failure as exit code."""
    traceback.print_exception(kind, error, trace)
    sys.stderr.flush()
    os._exit(_code_of(error))


def _code_of(error: BaseException) -> int:
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return TOO_LARGE
    if isinstance(error, MemoryError):
        return NO_MEMORY
    return NO_MEMORY if any(word in str(error).lower() for word in _WORDS_FOR_MEMORY) else FAILED


_limited: list[Limits] = []  # one in a process that has limits, none elsewhere


def is_limited() -> bool:
    """Say whether this process has limits already: whatever it runs is guarded."""
    return bool(_limited)


def set_limits(limits: Limits) -> None:
    """Bound this process for good: what it allocates, writes and opens; no core dumps."""
    _limited[:] = [limits]
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.output_bytes)
    _limit(resource.RLIMIT_NOFILE, limits.open_files)
    # Not RLIMIT_AS: it also counts mapped files and libraries, 1.4 GB for TensorFlow before it does anything.
    _limit(resource.RLIMIT_DATA, limits.memory)


def _limit(what: int, value: int) -> None:
    _, hard = resource.getrlimit(what)
    bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(what, (bound, bound))


def processor_seconds() -> float:
    """Return the processor time this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def limit_processor(seconds: float, since: float | None = None) -> None:
    """Let this process use `seconds` of processor time from now on, or since it had used `since`; the kernel
    ends it beyond that.
    """
    soft = math.ceil((processor_seconds() if since is None else since) + seconds)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(
        resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard)
    )


def _teller(reports: IO[str], limits: Limits) -> Callable[[dict[str, Any]], None]:
    since, patience = processor_seconds(), 1.0

    def tell(report: dict[str, Any]) -> None:
        nonlocal since, patience
        patience = report.get("patience", patience)
        if not report.get("goes_on"):
            since = processor_seconds()
        limit_processor(limits.seconds * patience, since)
        reports.write(json.dumps(report) + "\n")
        reports.flush()

    return tell


def _outlive_nobody(folder: Path) -> None:
    while os.read(0, 4096):
        pass
    _leave(folder)


def _leave(folder: Path) -> NoReturn:
    """End for want of a parent, and take the folder along."""
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def named_function(task: str) -> Callable[..., Any]:
    """Return the function of ours that "engine.room.module:function" names."""
    module, _, name = task.partition(":")  # named in our own code, never by a file
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a library's threads or atexit hooks must not delay or change the outcome
