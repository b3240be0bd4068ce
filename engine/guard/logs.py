"""Where tracebacks go, since a person gets one line: a folder of small text files, the oldest removed.

Knows the place and its bounds. Knows nothing of what failed.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path

KEPT = 50  # logs of earlier failures
MAX_BYTES = 1 << 20  # of one log: its end, which holds the reason


def log_folder() -> Path:
    """Return where logs are kept: $ANCHORPOINT_LOGS, else `logs` in the store ($ANCHORPOINT_STORE or
    ~/.cache/anchorpoint).
    """
    store = os.environ.get("ANCHORPOINT_STORE") or Path.home() / ".cache" / "anchorpoint"
    return Path(os.environ.get("ANCHORPOINT_LOGS") or Path(store, "logs"))


def write_log(text: str, *, folder: Path | None = None) -> Path | None:
    """Keep `text` in a new log and return its place; None if nothing can be written anywhere."""
    for place in (folder or log_folder(), Path(tempfile.gettempdir(), "anchorpoint-logs")):
        with suppress(OSError):
            place.mkdir(parents=True, exist_ok=True)
            now = time.time_ns()
            stamp = time.strftime(f"%Y%m%d-%H%M%S-{now % 10**9:09}-", time.localtime(now // 10**9))
            handle, name = tempfile.mkstemp(dir=place, prefix=stamp, suffix=".log")
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode(errors="replace")[-MAX_BYTES:])
            _prune(place, Path(name))
            return Path(name)
    return None


def where(log: Path | None) -> str:
    """The sentence that names the log."""
    return "No log could be written." if log is None else f"Details: {log}"


def _prune(folder: Path, new: Path) -> None:
    for old in sorted(set(folder.glob("*.log")) - {new})[: -KEPT + 1]:
        with suppress(OSError):
            old.unlink()
