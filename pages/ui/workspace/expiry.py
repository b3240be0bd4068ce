"""Expired sessions leave while the server runs, not only when somebody arrives. Knows a thread and its
interval.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path

from pages.ui.workspace.folder import sweep

_BEGUN = time.time(), time.monotonic()
EVERY = 600.0  # seconds between two looks

_swept: set[Path] = set()
_lock = threading.Lock()


def sweep_regularly(root: Path, expiry_seconds: float, every: float = EVERY) -> None:
    """Start sweeping the sessions below `root`, once in this process however often it is asked for."""
    with _lock:
        if root in _swept:
            return
        _swept.add(root)
    threading.Thread(target=_sweep_on, args=(root, expiry_seconds, every), daemon=True).start()


def _sweep_on(root: Path, expiry_seconds: float, every: float) -> None:
    while True:
        sweep(root, expiry_seconds, steady_now())
        time.sleep(every)


def steady_now() -> float:
    """The time of day, but never later than what has passed since this process began: a clock that is set
    ahead must not make yesterday's work look expired.
    """
    wall, monotonic = _BEGUN
    return min(time.time(), wall + time.monotonic() - monotonic)
