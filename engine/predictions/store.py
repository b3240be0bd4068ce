"""Finished work on disk: one checked, atomically written .npy per model, under a key made of everything that
could change its numbers.

Knows files and hashes. Knows nothing of models; whatever does not check out counts as not done.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.files.hashing import sha256_of
from engine.files.npy import read_header
from engine.types import UserError

_ABANDONED = 3600.0  # seconds without a write after which a half-written file belongs to nobody


def default_store() -> Path:
    """Return the folder for resumable work: $ANCHORPOINT_STORE, or ~/.cache/anchorpoint."""
    return Path(os.environ.get("ANCHORPOINT_STORE") or Path.home() / ".cache" / "anchorpoint")


def store_key(parts: Mapping[str, Any]) -> str:
    """Return a folder name that changes whenever any part does."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def make_folder(path: Path) -> Path:
    """Create the folder, rid it of what killed runs left half-written, and return it; raise UserError if that
    is not possible.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"the store {str(path)!r} cannot be created ({error.strerror}).",
            "Give another folder.",
            option="store",
        ) from None
    for partial in path.glob(".*.tmp"):
        with suppress(OSError):
            if time.time() - partial.stat().st_mtime > _ABANDONED:
                partial.unlink()
    return path


def temporary(path: Path) -> Path:
    """Return a name beside `path` that no other process or thread writes to."""
    return path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")


def write_text(path: Path, text: str) -> None:
    """Write a small file so that a kill leaves either the old one or the new one."""
    partial = temporary(path)
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def commit(partial: Path, path: Path) -> None:
    """Move a finished file to its place and record its hash beside it; it counts as done only when both are
    there.
    """
    write_text(path.with_suffix(".sha256"), _seal(partial, path))
    os.replace(partial, path)


def _seal(path: Path, place: Path) -> str:
    """A file's hash, and the name and folder it was stored under: the results of two models, or of one model
    on two pools, that changed places are no results.
    """
    return f"{sha256_of(path)} {place.parent.name}/{place.name}"


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Store one array; neither a kill nor a power cut leaves anything half-written that `read_array` would
    accept.
    """
    partial = temporary(path)
    try:
        with partial.open("wb") as file:
            np.save(file, array, allow_pickle=False)
        commit(partial, path)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise UserError(
            f"the store cannot be written ({error.strerror}).",
            "Free disk space or give another folder.",
            option="store",
        ) from None


def is_intact(path: Path) -> bool:
    """Say whether the file is there, under the name and with the hash it was stored with."""
    try:
        return path.with_suffix(".sha256").read_text(encoding="utf-8") == _seal(path, path)
    except (OSError, UnicodeDecodeError):
        return False


def read_array(path: Path, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    """Return the stored float32 array if it is complete, unaltered and of this shape; otherwise None: compute
    it again.
    """
    if not is_intact(path):
        return None
    try:
        array: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if array.shape == shape and array.dtype == np.float32 else None


def locate_array(path: Path, shape: tuple[int, ...]) -> int | None:
    """Return where the values of a stored float32 array begin if it is complete, unaltered and of this shape,
    or None; nothing is loaded.
    """
    if not is_intact(path):
        return None
    try:
        with path.open("rb") as file:
            header = read_header(file)
    except (OSError, ValueError, EOFError):
        return None
    fits = header.shape == shape and header.dtype == np.float32 and not header.is_fortran
    return header.offset if fits else None
