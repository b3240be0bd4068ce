"""A label book on disk: one line an event, appended and synced before anything else happens, replayed to
read.

Knows one append-only file. A line that a crash cut off is dropped; everything before it stands.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from engine.target.label_book import Change, Entry, LabelBook
from engine.types import UserError

Event = Change | Literal["undo", "redo"]
_MAX_BYTES = 256 << 20


def append(path: Path, event: Event) -> None:
    """Add one event and sync it to the disk: when this returns, the label outlives a crash."""
    line = json.dumps(_to_json(event), separators=(",", ":")).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # two tabs may label at once
            _append_synced(handle, line, path.parent)
        finally:
            os.close(handle)
    except OSError as error:
        raise UserError(
            f"the label could not be saved ({error.strerror}). Free some disk space, then label again."
        ) from None


def _append_synced(handle: int, line: bytes, folder: Path) -> None:
    size = os.fstat(handle).st_size
    try:
        if size and os.pread(handle, 1, size - 1) != b"\n":
            line = b"\n" + line  # a crash cut the last line off; ours must not join it
        _write_all(handle, line)
        os.fsync(handle)
        if not size:
            _sync_folder(folder)  # a new file's name must outlive a power cut, too
    except OSError:
        with suppress(OSError):
            os.ftruncate(handle, size)
        raise


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _write_all(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def read(path: Path) -> tuple[Event, ...]:
    """Return every whole event of the file, in order; () if there is no file."""
    if not path.exists():
        return ()
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(
            f"{path.name} has more than {_MAX_BYTES >> 20} MB. Download the labels and start anew."
        )
    events: list[Event] = []
    for line in path.read_bytes().split(b"\n"):
        event = _from_line(line)
        if event is not None:
            events.append(event)
    return tuple(events)


def replay(events: tuple[Event, ...]) -> LabelBook:
    """Return the book that the events lead to."""
    book = LabelBook()
    for event in events:
        if event == "undo":
            book = book.undo()
        elif event == "redo":
            book = book.redo()
        else:
            assert isinstance(event, Change)
            book = book.record(event)
    return book


def _to_json(event: Event) -> dict[str, Any]:
    if isinstance(event, str):
        return {"event": event}
    entries = [[row, asdict(entry)] for row, entry in event.entries.items()]
    return {"event": "change", "words": event.words, "drops": event.drops, "entries": entries}


def _from_line(line: bytes) -> Event | None:
    """Return the event of one line; None for a line that a crash cut off, or that is not ours."""
    try:
        values = json.loads(line)
        kind = values["event"]
        if kind in ("undo", "redo"):
            event: Event = kind
            return event
        entries = {int(row): Entry(**entry) for row, entry in values["entries"]}
        drops = tuple(int(row) for row in values["drops"])
        return Change(words=str(values["words"]), entries=entries, drops=drops)
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
