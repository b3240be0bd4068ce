"""How much of the disk visitors have filled, and whether there is room for more: for one of them, and for all
together.

Knows folders and the host's limits. Knows nothing of what the files are.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from engine.types import UserError
from pages.ui.workspace.hosting import Hosting

_FRESH = 20.0  # seconds for which the sum over all visitors is taken as known

_lock = threading.Lock()
_sums: dict[Path, tuple[float, int]] = {}  # root -> (when it was counted, bytes)


def used_bytes(folder: Path) -> int:
    """Bytes of all files below a folder; files that leave while it is counted do not matter."""
    total, waiting = 0, [str(folder)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:
            continue
    return total


def check_room(folder: Path, host: Hosting, wanted: int = 0) -> None:
    """Raise UserError if this visitor, or all of them together, would hold more than the host allows."""
    if host.visitor_bytes is not None and used_bytes(folder) + wanted > host.visitor_bytes:
        raise UserError(
            f"there is no room left: your work may take {_gb(host.visitor_bytes)} here. Delete a project on"
            " the Projects page or start over, then try again."
        )
    if host.total_bytes is not None and _used_by_all(host.root) + wanted > host.total_bytes:
        raise UserError(
            f"this server is full: all visitors together hold {_gb(host.total_bytes)}. Nothing of yours is"
            " lost; try again later, or run Anchorpoint on your own machine."
        )


def _used_by_all(root: Path) -> int:
    with _lock:
        when, total = _sums.get(root, (-_FRESH, 0))
        if time.monotonic() - when >= _FRESH:
            total = used_bytes(root)
            _sums[root] = (time.monotonic(), total)
        return total


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.3g} GB"
