"""Image files in a folder or a zip, listed safely and read one at a time. Knows files and limits; pixels are
left to `decode`.
"""

from __future__ import annotations

import lzma
import os
import stat
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.files.zips import file_entries
from engine.target.decode import IMAGE_SUFFIXES, UnreadableImageError
from engine.target.decoders import Encoded
from engine.types import UserError

_MB = 10**6


@dataclass(frozen=True)
class Limits:
    """What we accept from a stranger's upload. Generous for photographs, tight for bombs."""

    files: int = 200_000
    file_bytes: int = 64 * _MB
    pixels: int = 50_000_000
    total_bytes: int = 50_000 * _MB  # of a zip or a compressed array, once unpacked
    # unpacked over packed, judged only for entries above 1 MB: small flat drawings compress well and do no
    # harm
    ratio: int = 200


class Source(Protocol):
    """Images by index. `raw` returns the bytes that identify an image."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def raw(self, index: int) -> bytes: ...


class Plain(Source, Protocol):
    """Images that need no decoder: `read` returns uint8 or float32 (height, width, 3)."""

    def read(self, index: int) -> NDArray[Any]: ...


def _is_image(path: PurePosixPath) -> bool:
    hidden = any(part.startswith(".") or part == "__MACOSX" for part in path.parts)
    return not hidden and path.suffix.lower() in IMAGE_SUFFIXES


def check_names(names: Sequence[str], where: str, limits: Limits) -> None:
    """Raise UserError if there is no image, or more than the limit."""
    if not names:
        raise UserError(
            f"{where} holds no image. Give a folder, a zip or an array with {', '.join(IMAGE_SUFFIXES[:5])}"
            " images."
        )
    if len(names) > limits.files:
        raise UserError(
            f"{where} holds {len(names):,} images, more than the {limits.files:,} allowed. Give a sample of"
            " them."
        )


class FolderSource:
    """Image files below a folder, in sorted order. Links to folders are not followed, so a cycle cannot trap
    us.
    """

    dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __init__(self, root: Path, limits: Limits) -> None:
        found = [
            Path(base, name).relative_to(root).as_posix()
            for base, _, names in os.walk(root)
            for name in names
        ]
        self.names = tuple(sorted(name for name in found if _is_image(PurePosixPath(name))))
        self.n_ignored = len(found) - len(self.names)
        self._root, self._limits = root, limits
        check_names(self.names, f"folder {root.name!r}", limits)

    def raw(self, index: int) -> bytes:
        path = self._root / self.names[index]
        try:
            if not stat.S_ISREG(path.stat().st_mode):
                raise UnreadableImageError(self.names[index], "it is not a regular file")
            with path.open("rb") as file:
                return _read_bounded(file, self.names[index], self._limits)
        except OSError as error:
            raise UnreadableImageError(self.names[index], f"it cannot be opened ({error.strerror})") from None

    def encoded(self, index: int) -> Encoded | UnreadableImageError:
        """Return what a decoder needs of an image, or why there is nothing to decode."""
        return _encoded(self, index, self._limits)


class ZipSource:
    """Image entries of a zip, in sorted order, read in place: nothing is ever extracted, so nothing can
    escape.
    """

    dtype: np.dtype[Any] = np.dtype(np.uint8)

    def __init__(self, path: Path, limits: Limits) -> None:
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            raise UserError(
                f"{path.name!r} is not a readable zip. Pack the images again, or give their folder."
            ) from None
        files = [(safe_path(info), info) for info in file_entries(self._zip)]
        entries = sorted(
            ((str(inside), info) for inside, info in files if _is_image(inside)), key=lambda entry: entry[0]
        )
        self.names = tuple(name for name, _ in entries)
        self.n_ignored = len(files) - len(entries)
        self._entries, self._limits = [info for _, info in entries], limits
        check_names(self.names, f"zip {path.name!r}", limits)
        if len(set(self.names)) < len(self.names):
            raise UserError(f"zip {path.name!r} holds two images of the same name. Pack them again.")
        check_entries(self._entries, path.name, limits)

    def raw(self, index: int) -> bytes:
        try:
            with self._zip.open(self._entries[index]) as file:
                return _read_bounded(file, self.names[index], self._limits)
        except (
            zipfile.BadZipFile,
            zlib.error,
            lzma.LZMAError,
            EOFError,
            OSError,
            NotImplementedError,
            RuntimeError,
            ValueError,
        ) as error:
            raise UnreadableImageError(self.names[index], f"its zip entry is damaged ({error})") from None

    def encoded(self, index: int) -> Encoded | UnreadableImageError:
        """Return what a decoder needs of an image, or why there is nothing to decode."""
        return _encoded(self, index, self._limits)


def safe_path(info: zipfile.ZipInfo) -> PurePosixPath:
    """Return an entry's path inside its zip; raise UserError if it points outside."""
    path = PurePosixPath(info.filename.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or any(":" in part for part in path.parts[:1]):
        raise UserError(
            f"the zip has an entry {info.filename!r} that points outside of it. Pack the files again with"
            " plain names."
        )
    return path


def check_entries(entries: Sequence[zipfile.ZipInfo], where: str, limits: Limits) -> None:
    """Raise UserError for entries of the zip called `where` that are links, encrypted or a bomb."""
    total = sum(info.file_size for info in entries)
    if total > limits.total_bytes:
        raise UserError(
            f"zip {where!r} unpacks to {total / _MB:,.0f} MB, more than the {limits.total_bytes / _MB:,.0f}"
            " allowed. Give a part of it."
        )
    for info in entries:
        if stat.S_ISLNK(info.external_attr >> 16):
            raise UserError(
                f"the zip has a link {info.filename!r} in place of a file. Pack the files themselves."
            )
        if info.flag_bits & 1:
            raise UserError(
                f"the zip entry {info.filename!r} is encrypted. Pack the files again without a password."
            )
        if info.file_size > _MB and info.file_size > limits.ratio * max(info.compress_size, 1):
            raise UserError(
                f"zip entry {info.filename!r} unpacks to over {limits.ratio} times its size, as a zip bomb"
                " would. Remove it."
            )


def _encoded(source: Source, index: int, limits: Limits) -> Encoded | UnreadableImageError:
    try:
        return Encoded(source.names[index], source.raw(index), limits.pixels)
    except UnreadableImageError as error:
        return error


def _read_bounded(file: IO[bytes], name: str, limits: Limits) -> bytes:
    """Read a whole image file, but never more than the limit: sizes in headers can lie."""
    data = file.read(limits.file_bytes + 1)
    if len(data) > limits.file_bytes:
        raise UnreadableImageError(name, f"it is larger than {limits.file_bytes / _MB:,.0f} MB")
    return data
