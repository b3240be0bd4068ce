"""Find the model files in a folder, a zip or an upload, name them, and bound what is read.

Knows files and names. A zip's entries are copied out under the hash of their content, never under their own
name, so nothing can escape.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from engine.family.model_file import Refusal
from engine.family.recipes import recipe_of
from engine.files.whole_file import whole_file
from engine.files.zips import file_entries
from engine.target.sources import Limits, check_entries, safe_path
from engine.types import UserError

RUN_AS_THEY_ARE = (".onnx", ".tflite")
IMPORTED = (".keras", ".h5", ".hdf5", ".pt2")
_WITHOUT_GRAPH = (".pth", ".pt", ".safetensors", ".ckpt", ".pkl", ".pickle", ".joblib", ".pb", ".mlmodel")
_MB = 10**6
LIMITS = Limits(files=500, file_bytes=2000 * _MB, total_bytes=8000 * _MB)
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Found:
    """A model file, the name it competes under, and the description beside it if there is one."""

    name: str
    path: Path
    source: str  # its path as found
    sidecar: Path | None = None


@dataclass(frozen=True)
class Finding:
    """What was found: files to look into, and those that cannot be candidates whatever is in them."""

    files: tuple[Found, ...]
    refused: tuple[Refusal, ...]


def find_files(place: str | Path, keep: Path, *, limits: Limits = LIMITS) -> Finding:
    """Find the model files in a folder or a zip, in sorted order; entries of a zip are copied to `keep`.

    Raises UserError if there is nothing there, no model file, or more than the limits allow.
    """
    path = Path(place).expanduser()
    if path.is_dir():
        return _finding(_walk(path), path.name, limits)
    if path.is_file() and zipfile.is_zipfile(path) and path.suffix.lower() == ".zip":
        return _finding(_unpack(path, keep, limits), path.name, limits)
    if path.is_file():
        raise UserError(f"{path.name!r} is neither a folder nor a zip of model files. Give its folder.")
    raise UserError(f"there is nothing at {str(path)!r}. Give a folder or a zip of model files.")


def _walk(root: Path) -> dict[str, Path]:
    # links to folders are not followed, so a cycle cannot trap us
    return {
        Path(base, name).relative_to(root).as_posix(): Path(base, name).absolute()
        for base, _, names in os.walk(root)
        for name in names
    }


def _finding(paths: dict[str, Path], where: str, limits: Limits) -> Finding:
    visible = {name: path for name, path in paths.items() if not _is_hidden(PurePosixPath(name))}
    models = sorted(name for name in visible if _suffix(name) in (*RUN_AS_THEY_ARE, *IMPORTED))
    others = sorted(name for name in visible if _suffix(name) in _WITHOUT_GRAPH)
    if not models:
        raise UserError(
            f"{where!r} holds no model file. Candidates are {', '.join((*RUN_AS_THEY_ARE, *IMPORTED))}."
        )
    if len(models) > limits.files:
        raise UserError(f"{where!r} holds {len(models)} model files; {limits.files} can be judged at once.")
    names = dict(zip([*models, *others], name_files([*models, *others]), strict=True))
    refused = [Refusal(names[name], _no_graph(name)) for name in others]
    files = []
    for name in models:
        if problem := _unreadable(visible[name], limits):
            refused.append(Refusal(names[name], problem))
        else:
            files.append(
                Found(name=names[name], path=visible[name], source=name, sidecar=_sidecar(name, visible))
            )
    return Finding(tuple(files), tuple(refused))


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _is_hidden(path: PurePosixPath) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in path.parts)


def _no_graph(name: str) -> str:
    return (
        f"a {_suffix(name)} file holds no graph that runs by itself. Export it as .onnx, .tflite, .pt2 or"
        " .keras."
    )


def _unreadable(path: Path, limits: Limits) -> str | None:
    try:
        status = path.stat()
    except OSError as error:
        return f"it cannot be opened ({error.strerror})."
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file."
    if status.st_size == 0:
        return "it is empty."
    if status.st_size > limits.file_bytes:
        return f"it is larger than {limits.file_bytes / 1e9:.3g} GB."
    return None


def _sidecar(name: str, paths: dict[str, Path]) -> Path | None:
    for candidate in (f"{name}.json", str(PurePosixPath(name).with_suffix(".json"))):
        if candidate in paths:
            return paths[candidate]
    return None


def name_files(paths: Sequence[str]) -> list[str]:
    """Return a name for each relative path: its stem; equal stems get their folder, and their suffix if that
    is not enough. A stem that is a recipe's name keeps its suffix: only recipes are called so.
    """
    plain = [PurePosixPath("".join(c if c.isprintable() else "_" for c in path)) for path in paths]
    ways: tuple[Callable[[PurePosixPath], str], ...] = (
        lambda path: path.stem,
        lambda path: str(path.with_suffix("")),
        str,
    )
    names: list[str] = ["" for _ in plain]
    for way in ways:
        proposed = [name or way(path) for name, path in zip(names, plain, strict=True)]
        counts = Counter(proposed)
        names = [
            name or (new if counts[new] == 1 and recipe_of(new) is None else "")
            for name, new in zip(names, proposed, strict=True)
        ]
    return [name or f"{path}~{index}" for index, (name, path) in enumerate(zip(names, plain, strict=True))]


def _unpack(path: Path, keep: Path, limits: Limits) -> dict[str, Path]:
    wanted = (*RUN_AS_THEY_ARE, *IMPORTED, *_WITHOUT_GRAPH, ".json")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [(str(safe_path(info)), info) for info in file_entries(archive)]
            entries = [(name, info) for name, info in entries if _suffix(name) in wanted]
            if len(entries) > 2 * limits.files:
                raise UserError(f"zip {path.name!r} holds {len(entries)} files. Give fewer at once.")
            if len({name for name, _ in entries}) < len(entries):
                raise UserError(f"zip {path.name!r} holds two files of the same name. Pack them again.")
            check_entries([info for _, info in entries], path.name, limits)
            return {name: _copy_out(archive, info, keep, limits) for name, info in entries}
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError) as error:
        raise UserError(f"{path.name!r} is a damaged zip ({error}). Pack it again.") from None


def _copy_out(archive: zipfile.ZipFile, info: zipfile.ZipInfo, keep: Path, limits: Limits) -> Path:
    with archive.open(info) as file:
        return keep_content(_blocks(file, info.filename, limits), _suffix(info.filename), keep)


def _blocks(file: IO[bytes], name: str, limits: Limits) -> Iterable[bytes]:
    total = 0
    while block := file.read(_CHUNK):
        total += len(block)
        if total > limits.file_bytes:  # the size in a zip's header can lie
            raise UserError(f"{name!r} is larger than {limits.file_bytes / 1e9:.3g} GB. Remove it.")
        yield block


def keep_content(blocks: Iterable[bytes], suffix: str, keep: Path) -> Path:
    """Write content to a file of `keep` that is named by its hash, and return its path."""
    keep.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    partial = keep / f".{os.getpid()}.part{suffix}"
    with whole_file(partial) as file:
        for block in blocks:
            digest.update(block)
            file.write(block)
    path = (keep / f"{digest.hexdigest()}{suffix}").absolute()
    os.replace(partial, path)
    return path
