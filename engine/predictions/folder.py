"""The predictions folder: `teacher.npy`, `candidates/NAME.npy` and `meta.json`, the form for families larger
than memory.

Knows names, order and completeness of shards. `meta.json` is written last: a folder without it is unfinished.
Knows nothing of models, rules or how the numbers were made.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

from engine.files.npy import read_header, write_npy
from engine.files.whole_file import whole_file
from engine.predictions.stack import Shard, Stack, in_memory
from engine.types import UserError

META, TEACHER, CANDIDATES, TEST = "meta.json", "teacher.npy", "candidates", "test"
_MAX_META_BYTES = 1 << 26
_SAFE = " +,=@()"  # kept in file names beside letters, digits, `_`, `.` and `-`


def shard_name(name: str) -> str:
    """Return the file name of a candidate's shard; no name leads out of the folder or hides the file."""
    return re.sub(r"^\.", "%2E", quote(name, safe=_SAFE)) + ".npy"


def is_text(name: str) -> bool:
    """Say whether a name can be written down: half a character (a surrogate) cannot."""
    return name.isascii() or not any("\ud800" <= character <= "\udfff" for character in name)


# --- reading ------------------------------------------------------------------------------


def read_folder(folder: Path, *, wanted: Collection[str]) -> dict[str, Any]:
    """Return the wanted arrays of a predictions folder: teachers memory-mapped, candidates as a Stack (small
    ones in memory), the rest from `meta.json`.

    Raises UserError, in one line, for an unfinished folder, a missing shard or one that does not fit.
    """
    meta = _read_meta(folder)
    names = meta.get("names")
    if names is None:
        names = sorted(path.stem for path in (folder / CANDIDATES).glob("*.npy"))
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and is_text(n) for n in names):
        raise UserError(
            f"{folder.name}/{META} needs `names`, the candidates in their order. List them, each with its"
            f" shard {CANDIDATES}/NAME.npy."
        )
    arrays: dict[str, Any] = {
        name: value for name, value in meta.items() if name in wanted and value is not None
    }
    arrays["names"] = names
    arrays |= _read_part(folder, folder, names, "")
    if (folder / TEST).is_dir() and "labels_test" in meta:
        arrays |= _read_part(folder, folder / TEST, names, "_test")
    return arrays


def _read_meta(folder: Path) -> dict[str, Any]:
    path = folder / META
    if not path.is_file():
        raise UserError(
            f"{folder.name} has no {META}, so it is unfinished or no predictions folder.",
            "Run `predict` into it again: what is finished is kept.",
            option="out",
        )
    if path.stat().st_size > _MAX_META_BYTES:
        raise UserError(f"{folder.name}/{META} is larger than 64 MB; it holds names and labels only.")
    try:
        meta = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise UserError(f"{folder.name}/{META} is not readable JSON ({error}). Write it again.") from None
    if not isinstance(meta, dict):
        raise UserError(f"{folder.name}/{META} must hold one JSON object with `names`. Write it again.")
    return meta


def _read_part(folder: Path, part: Path, names: Sequence[str], suffix: str) -> dict[str, Any]:
    teacher, shape, dtype = _open_shard(folder, part / TEACHER)
    values = np.memmap(teacher.path, dtype, "r", teacher.offset, shape)
    shards: list[Shard] = []
    stored: np.dtype[Any] | None = None
    for name in names:
        path = part / CANDIDATES / shard_name(name)
        shard, own_shape, own_dtype = _open_shard(folder, path)
        if stored is not None and own_dtype != stored:
            raise UserError(
                f"{path.relative_to(folder)} holds {own_dtype}, the first candidate {stored}. Give all"
                " candidates one type."
            )
        if own_shape != shape:
            raise UserError(
                f"{path.relative_to(folder)} is {own_shape} but the teacher is {shape}: both need the same N"
                " rows and K classes. Run it on the same images."
            )
        stored = own_dtype if stored is None else stored
        shards.append(shard)
    assert stored is not None
    stack = Stack(shards=tuple(shards), n_images=shape[0], n_classes=shape[1], dtype=stored)
    return {f"teacher{suffix}": values, f"candidates{suffix}": in_memory(stack)}


class _Opened(NamedTuple):
    """Where a shard's values lie, their shape (N, K) and their type."""

    shard: Shard
    shape: tuple[int, int]
    dtype: np.dtype[Any]


def _open_shard(folder: Path, path: Path) -> _Opened:
    """Return where a shard's values lie, their shape and type, without reading them."""
    shown = path.relative_to(folder)
    try:
        if path.exists() and not path.is_file():
            raise ValueError("a pipe or a device would keep us waiting")
        with path.open("rb") as file:
            header = read_header(file)
        n_bytes = path.stat().st_size - header.offset
    except FileNotFoundError:
        raise UserError(
            f"{folder.name} lacks {shown}, which its {META} lists. Run `predict` again, or take the name out."
        ) from None
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder.name}: {shown} is no readable .npy file ({error}). Write it again."
        ) from None
    shape, dtype = header.shape, header.dtype
    if len(shape) != 2 or header.is_fortran or dtype.hasobject or min(shape) < 1:
        raise UserError(
            f"{folder.name}: {shown} holds {dtype} of shape {shape}; (N, K) probabilities in rows are needed."
        )
    if n_bytes < shape[0] * shape[1] * dtype.itemsize:
        raise UserError(f"{folder.name}: {shown} is cut short. Write it again: `predict` resumes.")
    return _Opened(Shard(path, header.offset), (int(shape[0]), int(shape[1])), dtype)


# --- writing ------------------------------------------------------------------------------


def write_folder(folder: Path, arrays: Mapping[str, Any], dtype: np.dtype[Any] | None = None) -> None:
    """Write arrays of the predictions contract as a folder of shards, each a whole file, `meta.json` last;
    probabilities as `dtype`, or as they are.

    A shard that is stored as it must be is linked, not copied, where the file system can. Killed half-way,
    the folder counts as unfinished and the next run completes it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / META).unlink(missing_ok=True)  # unfinished from here on
    names = [str(name) for name in arrays["names"]]
    _write_part(folder, names, arrays["teacher"], arrays["candidates"], dtype)
    if "teacher_test" in arrays:
        _write_part(folder / TEST, names, arrays["teacher_test"], arrays["candidates_test"], dtype)
    big = ("teacher", "candidates", "teacher_test", "candidates_test")
    meta = {name: np.asarray(value).tolist() for name, value in arrays.items() if name not in big}
    with whole_file(folder / META) as file:
        file.write(json.dumps(meta, ensure_ascii=False).encode())


def _write_part(part: Path, names: Sequence[str], teacher: Any, candidates: Any, dtype: Any) -> None:
    (part / CANDIDATES).mkdir(parents=True, exist_ok=True)
    wanted = {shard_name(name) for name in names}
    for stale in (part / CANDIDATES).iterdir():
        if stale.name not in wanted and stale.suffix in (".npy", ".tmp"):
            stale.unlink()
    _write_shard(part / TEACHER, teacher, dtype)
    for m, name in enumerate(names):
        path = part / CANDIDATES / shard_name(name)
        is_as_stored = isinstance(candidates, Stack) and dtype in (None, candidates.dtype)
        source = candidates.whole_file_of(m) if is_as_stored else None
        if source is None or not _link(source, path):
            _write_shard(path, candidates[m], dtype)


def _link(source: Path, path: Path) -> bool:
    """Give a finished file another name; say whether that was possible."""
    if path.exists() and path.samefile(source):
        return True
    partial = path.with_name(f".{path.name}.link.tmp")
    with suppress(OSError):
        partial.unlink(missing_ok=True)
        os.link(source, partial)
        os.replace(partial, path)
        return True
    return False


def _write_shard(path: Path, values: Any, dtype: np.dtype[Any] | None) -> None:
    with whole_file(path) as file:
        write_npy(file, values, dtype)
