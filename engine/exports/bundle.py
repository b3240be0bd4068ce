"""A bundle as a zip: write one with the same bytes each time, and read a stranger's within bounds, never onto
the disk.

Knows archives and folders. What the files must contain is the business of `verification`.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from engine.exports.certificate import Certificate
from engine.exports.place import CERTIFICATE, MAX_CERTIFICATE_BYTES, SIGNATURE, check_zip
from engine.files.hashing import sha256_of
from engine.files.whole_file import whole_file
from engine.types import UserError

MAX_FILES = 50
MAX_BYTES = 8 * 1000**3  # unpacked, all files together
_GIVE = "Give the folder or .zip that python -m engine export wrote."
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can state: the same folder gives the same bytes


@dataclass(frozen=True, eq=False)
class Bundle:
    """An opened folder or zip: its files with the sizes they state, and how to open one."""

    sizes: dict[str, int]
    open: Callable[[str], IO[bytes]]
    is_zip: bool

    def read(self, name: str) -> bytes:
        """Return a file's bytes, never more than the size it states."""
        with self.open(name) as file:
            return file.read(self.sizes[name])

    def sha256(self, name: str) -> str:
        """Return a file's hash without holding the file in memory."""
        with self.open(name) as file:
            return sha256_of(file)


def write_bundle(folder: str | Path, zip_path: str | Path) -> Path:
    """Zip the files that the folder's certificate lists, and the certificate; return the zip's path.

    The same folder gives the same bytes. Raises UserError if the folder holds no complete export, or if the
    zip's place is taken by something else than an earlier bundle.
    """
    folder, target = Path(folder), check_zip(zip_path)
    with open_bundle(folder) as bundle:
        signature = {SIGNATURE} & bundle.sizes.keys()
        names = sorted({CERTIFICATE, *signature, *read_certificate(bundle).files})
        missing = [name for name in names if name not in bundle.sizes]
        if missing:
            raise UserError(
                f"{folder} lacks {missing[0]}, which its certificate lists. Export the model again."
            )
    with whole_file(target) as file, zipfile.ZipFile(file, "w") as archive:
        for name in names:
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, (folder / name).read_bytes(), zipfile.ZIP_DEFLATED, 6)
    return target


def read_certificate(bundle: Bundle) -> Certificate:
    """Return the bundle's certificate; raise UserError if it is damaged."""
    if bundle.sizes[CERTIFICATE] > MAX_CERTIFICATE_BYTES:
        raise UserError("certificate.json is larger than any certificate. It is not one of our bundles.")
    return Certificate.from_json(bundle.read(CERTIFICATE))


@contextmanager
def open_bundle(path: str | Path) -> Iterator[Bundle]:
    """Open a bundle folder or zip; raise UserError if it is neither, has no certificate, or breaks a
    bound.
    """
    if not str(path).strip():
        raise UserError(f"the bundle's path is empty. {_GIVE}")
    path = Path(path)
    if path.is_dir():
        files = _folder(path)
        _require_certificate(files.sizes, path)
        yield files
        return
    if not path.is_file():
        raise UserError(f"there is nothing at {str(path)!r}. {_GIVE}")
    try:
        with zipfile.ZipFile(path) as archive:
            _require_certificate(archive.namelist(), path)
            yield _archive(archive, path.name)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error) as error:
        raise UserError(
            f"{str(path)!r} is not a bundle written by export, or is damaged: it cannot be read as a zip."
            f" {_GIVE}"
        ) from error


def _require_certificate(names: Collection[str], path: Path) -> None:
    if CERTIFICATE not in names:
        raise UserError(f"{str(path)!r} is not a bundle written by export: it has no {CERTIFICATE}. {_GIVE}")


def _folder(folder: Path) -> Bundle:
    # links are left out: a bundle is read from its own folder only
    files = {
        item.name: item.stat().st_size
        for item in folder.iterdir()
        if item.is_file() and not item.is_symlink()
    }
    return Bundle(files, lambda name: (folder / name).open("rb"), False)


def _archive(archive: zipfile.ZipFile, name: str) -> Bundle:
    entries = archive.infolist()
    if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_BYTES:
        raise UserError(
            f"{name} holds {len(entries)} files or unpacks beyond {MAX_BYTES // 1000**3} GB; a bundle does"
            " neither."
        )
    for entry in entries:
        _refuse_strange(entry, name)
    sizes = {entry.filename: entry.file_size for entry in entries}
    if len(sizes) < len(entries):
        raise UserError(f"{name} holds two files of one name. It is not one of our bundles.")
    return Bundle(sizes, archive.open, True)


def _refuse_strange(entry: zipfile.ZipInfo, name: str) -> None:
    plain = (
        entry.filename == Path(entry.filename).name
        and "\\" not in entry.filename
        and entry.filename not in ("", ".", "..")
    )
    if not plain or entry.is_dir() or stat.S_ISLNK(entry.external_attr >> 16) or entry.flag_bits & 0x1:
        raise UserError(
            f"{name} contains {entry.filename!r}: a bundle has plain files only, no folders, links or"
            " passwords."
        )
