"""What a visitor has done, kept in a folder on disk: the record of facts, and results in memory that follow
from them.

Knows how a change is saved and what it forgets. Knows nothing of what the facts mean.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from engine.target.label_book import Change, Entry
from engine.target.label_log import append
from pages.ui.jobs import control as jobs
from pages.ui.session.memory import Memory, make_room
from pages.ui.session.record import FILES, JOBS, Record, Step
from pages.ui.workspace.folder import RECORD, read_json, remove, write_json
from pages.ui.workspace.hosting import Hosting
from pages.ui.workspace.projects import recover

T = TypeVar("T")
LABELS = "labels.jsonl"
_STAY_SECONDS = 600.0  # how often a session in use says so on disk


class Work:
    """A folder, its record, and what is held in memory; every change goes through a method that saves and
    forgets what it invalidates.
    """

    def __init__(self, folder: Path, host: Hosting) -> None:
        self.folder, self.host = folder, host
        self._memory = Memory()
        self._stamp = 0
        self.has_entered = False  # app.py has run for this visitor
        self.wanted = ""  # the page to open once it has
        self.complaint = ""  # why the last attempt failed, for the next page that is drawn
        self.is_lost = False  # the address named a session that is not here
        self.record = Record()
        recover(folder)
        self.refresh()

    def enter(self) -> str:
        """Note that app.py has run; return the page that was asked for before it had, if any."""
        self.has_entered, wanted, self.wanted = True, self.wanted, ""
        return wanted

    def refresh(self) -> None:
        """Read the record again if another tab changed it."""
        path = self.folder / RECORD
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp != self._stamp:
            values = read_json(path)
            self.record = Record.from_json(values) if values else Record()
            self._stamp = stamp
            self._take_over(values or {})

    def _take_over(self, values: dict[str, Any]) -> None:
        """Labels that an earlier version kept in the record begin a history of their own."""
        rows, labels = values.get("rows", ()), values.get("labels", ())
        if rows and not (self.folder / LABELS).exists():
            entries = {
                row: Entry(label=label, source="file") for row, label in zip(rows, labels, strict=True)
            }
            append(self.folder / LABELS, Change(words="labels of an earlier version", entries=entries))

    def change(self, *, keep: Step, **values: Any) -> None:
        """Change facts of the session, keep the steps up to `keep`, and forget every later one, in memory and
        on disk.
        """
        self.record = replace(self.record.forget_after(keep), **values)
        for step in Step:
            if step > keep:
                self._drop(step)
        self.save()

    def note(self, **values: Any) -> None:
        """Change facts that invalidate nothing."""
        self.record = replace(self.record, **values)
        self.save()

    def save(self) -> None:
        write_json(self.folder / RECORD, self.record.to_json())
        self._stamp = (self.folder / RECORD).stat().st_mtime_ns

    def _drop(self, step: Step) -> None:
        for kind in JOBS.get(step, ()):
            jobs.forget(self.folder, kind)
        for name in FILES.get(step, ()):
            remove(self.folder / name)

    def keep(self, name: str, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `name` for these inputs (`key`), computed once."""
        return self._memory.keep(name, key, compute)

    def let_go(self) -> None:
        """Release what is held in memory; the folder has everything to make it again."""
        self._memory.clear()

    def stay(self) -> None:
        """Put off the session's expiry while it is in use, and let others' pages make room for it."""
        path = self.folder / RECORD
        make_room(self._memory, self.host.held_bytes)
        if path.exists() and abs(time.time() - path.stat().st_mtime) > _STAY_SECONDS:
            path.touch()
            self._stamp = path.stat().st_mtime_ns
