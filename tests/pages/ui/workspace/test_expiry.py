"""Expiry: an old session leaves while the server runs, a young one and one at work stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

from pages.ui.workspace.expiry import sweep_regularly
from pages.ui.workspace.folder import RECORD, locked, new_id


def session(root: Path, age: float) -> Path:
    folder = root / new_id()
    (folder / "jobs").mkdir(parents=True)
    (folder / RECORD).write_text("{}")
    os.utime(folder / RECORD, (time.time() - age, time.time() - age))
    return folder


def test_old_sessions_leave_without_a_visitor(tmp_path: Path) -> None:
    young, working = session(tmp_path, 0), session(tmp_path, 1000)
    with locked(working / "jobs" / "predict.lock"):
        sweep_regularly(tmp_path, 500, every=0.05)
        sweep_regularly(tmp_path, 500, every=0.05)  # once is enough
        time.sleep(0.2)
        old = session(tmp_path, 1000)
        deadline = time.monotonic() + 20
        while old.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not old.exists()
        assert young.exists()
        assert working.exists()
