"""Where an export may be written: never over a user's own files, and never after minutes of work that then
fail.

Knows which files an earlier export left. Knows nothing of what is in them.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Collection
from pathlib import Path

from engine.exports.certificate import FORMAT
from engine.exports.native import FORMATS
from engine.exports.recreate import CLASS_NAMES
from engine.types import UserError

CERTIFICATE = "certificate.json"
SIGNATURE = "certificate.sig"  # detached, over the certificate; there only if a key was given
ALWAYS = ("model.onnx", "README.md", "predict.py", "certificate.html", CLASS_NAMES)
PART = ".part-"  # prefix of the folder that files wait in until all are there
MAX_CERTIFICATE_BYTES = 64 * 1000**2
_KIND = FORMAT.rpartition(" ")[0].encode()  # of any version


def check_folder(folder: str | Path, formats: Collection[str] = ("onnx",)) -> Path:
    """Return the folder as a path; raise UserError unless an export can be written there without touching a
    file of the user's.
    """
    if not str(folder).strip():
        raise UserError("the folder to write to is given as empty text. Name one, e.g. export.")
    target = Path(folder)
    try:
        written = (*ALWAYS, CERTIFICATE, *(FORMATS[name].file for name in formats if name in FORMATS))
        ours = earlier_files(target)
        # a folder or link of that name is never ours: what is written are plain files
        taken = [
            name
            for name in written
            if _exists(target / name) and (name not in ours or not _is_plain(target / name))
        ]
        if not taken:
            _try_writing(target)
    except (FileExistsError, NotADirectoryError) as error:
        raise UserError(
            f"{str(folder)!r} is a file or lies below one, and a folder is needed. Give another folder."
        ) from error
    except OSError as error:
        raise UserError(
            f"{str(folder)!r} cannot be written to ({error.strerror or error}). Give another folder."
        ) from error
    if taken:
        raise UserError(
            f"{str(folder)!r} holds {', '.join(taken)}, which no earlier export wrote and this one would"
            " overwrite. Give another folder."
        )
    return target


def earlier_files(folder: Path) -> set[str]:
    """Return the names that an earlier export, finished or interrupted, wrote in this folder; none if there
    was no export.
    """
    found: set[str] = set()
    for path in (folder / CERTIFICATE, *folder.glob(f"{PART}*/{CERTIFICATE}")):
        if path.is_file() and path.stat().st_size <= MAX_CERTIFICATE_BYTES:
            found |= _listed(path.read_bytes())
    return found


def check_zip(path: str | Path) -> Path:
    """Return the path; raise UserError if something other than an earlier bundle lies there."""
    target = Path(path)
    try:
        is_free = not _exists(target) or _is_bundle(target)
    except OSError as error:
        raise UserError(
            f"{str(path)!r} cannot be written ({error.strerror or error}). Give another folder."
        ) from error
    if not is_free:
        raise UserError(
            f"{str(path)!r} exists and is not a bundle written by export. Move it away, or give another"
            " folder."
        )
    return target


def _try_writing(target: Path) -> None:
    """Raise OSError if nothing can be written there: tried by doing it, since permissions do not tell, and
    undone.
    """
    made = [path for path in (target, *target.parents) if not path.exists()]
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=PART):
            pass
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # never made, or another export has begun to use it
                path.rmdir()


def _listed(content: bytes) -> set[str]:
    """Return the files that a certificate of ours lists; all that we ever write if it is damaged, none if it
    is not ours.
    """
    if _KIND not in content:
        return set()
    everything = {*ALWAYS, *(item.file for item in FORMATS.values())}
    try:
        listed = everything & set(json.loads(content)["files"])
    except (ValueError, TypeError, KeyError, RecursionError):
        listed = everything
    return {CERTIFICATE, SIGNATURE, *listed}


def _is_bundle(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(CERTIFICATE)
            return entry.file_size <= MAX_CERTIFICATE_BYTES and _KIND in archive.read(entry)
    except (OSError, KeyError, RuntimeError, EOFError, zipfile.BadZipFile, zlib.error):
        return False  # RuntimeError: a password, or a compression that is not built in


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _exists(path: Path) -> bool:
    return path.exists() or path.is_symlink()
