"""A session's folder on disk: an unguessable name, files written whole or not at all, and expiry. Knows
nothing of Streamlit.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine.files.whole_file import whole_file
from engine.types import UserError

_ID = re.compile(r"[A-Za-z0-9_-]{22}")
AS_READ = "as-read.json"  # what the teacher's file itself says of its input
RECORD = "session.json"
DISK_FULL = "the server's disk is full. Free some space, then resume."
_SMALL_FILE = 1 << 16


def new_id() -> str:
    """Return 128 random bits in letters: nobody guesses another visitor's session."""
    return secrets.token_urlsafe(16)


def is_id(text: str) -> bool:
    """Whether the text has the form of a session id; anything else must never become a path."""
    return _ID.fullmatch(text) is not None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file in one step: a reader sees the old bytes or all of the new ones.

    Raises UserError if the disk is full or closed; the old bytes stand.
    """
    try:
        with whole_file(path, private=True) as file:
            file.write(data)
    except OSError as error:
        raise UserError(
            f"this could not be saved ({error.strerror}). What was saved before stands; free disk space, or"
            " ask whoever runs this server to, then try again."
        ) from None


def is_full(folder: Path) -> bool:
    """Whether the disk has no room for even a small file."""
    return shutil.disk_usage(folder).free < _SMALL_FILE


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object in one step."""
    write_bytes(path, json.dumps(value).encode())


def read_json(path: Path) -> dict[str, Any] | None:
    """Read one JSON object; None if there is no such file. Raises UserError if it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise UserError(
            f"{path.name} of this session is damaged and cannot be read. Nothing was changed; go on in a new"
            " session, or ask whoever runs this server for a copy."
        )
    return value


def remove(path: Path) -> None:
    """Delete a file or a folder; nothing happens if there is none."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def is_locked(path: Path) -> bool:
    """Whether a living process holds the lock on this file. A killed process holds nothing, so no stale
    answer is possible.
    """
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock on a file, waiting for it if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def sweep(root: Path, expiry_seconds: float, now: float | None = None) -> list[str]:
    """Delete sessions that nobody used for `expiry_seconds` and that have no job running; return their
    ids.
    """
    if not root.is_dir():
        return []
    now, gone = time.time() if now is None else now, list[str]()
    for folder in root.iterdir():
        record = folder / RECORD
        if not is_id(folder.name) or not record.is_file() or now - record.stat().st_mtime < expiry_seconds:
            continue
        if any(is_locked(lock) for lock in folder.glob("jobs/*.lock")):
            continue
        shutil.rmtree(folder, ignore_errors=True)
        gone.append(folder.name)
    return gone
