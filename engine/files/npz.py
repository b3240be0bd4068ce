"""Read and write `.npz` archives safely: no pickles, bounded, memory-mapped where stored plain, written in
one step.

Knows the archive format. Knows nothing of what the arrays mean.
"""

from __future__ import annotations

import lzma
import math
import zipfile
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from engine.files.npy import read_header, write_npy
from engine.files.whole_file import whole_file
from engine.files.zips import is_bomb
from engine.types import UserError

MAX_UNPACKED_BYTES = 16 << 30  # a file that claims more is refused before anything is unpacked
# Compressed arrays have to be held in memory, so they may be less; what shrinks to a two-hundredth is a bomb,
# or flat enough to be saved plain.
MAX_INFLATED_BYTES = 4 << 30
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
)


def read_npz(
    path: Path, *, wanted: Collection[str], max_bytes: int = MAX_UNPACKED_BYTES
) -> dict[str, NDArray[Any]]:
    """Return the wanted arrays that the archive holds; uncompressed ones are memory-mapped, not read.

    Raises UserError if the file is missing, damaged, too large or holds Python objects.
    """
    if not path.is_file():
        raise UserError(f"{path} is not a file. Give the path of an .npz file.")
    try:
        with zipfile.ZipFile(path) as archive:
            members = _members(archive, wanted, path.name)
            check_sizes(list(members.values()), path.name, max_bytes)
            return {name: _read_member(path, archive, info) for name, info in members.items()}
    except _DAMAGE as error:
        raise UserError(
            f"{path.name} is not a readable .npz archive ({_reason(error)}).", "Write it with numpy.savez."
        ) from None
    except (ValueError, TypeError, RecursionError, MemoryError, OverflowError) as error:
        raise UserError(
            f"{path.name} holds an array that cannot be read safely ({_reason(error)}).",
            "Save plain numeric or string arrays.",
        ) from None


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:160] if lines else type(error).__name__


def _members(archive: zipfile.ZipFile, wanted: Collection[str], name: str) -> dict[str, zipfile.ZipInfo]:
    members: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        array = info.filename.removesuffix(".npy")
        if array in members:
            raise UserError(f"{name} holds {array!r} twice.", "Write it with numpy.savez.")
        if array in wanted:
            members[array] = info
    return members


def check_sizes(entries: Sequence[zipfile.ZipInfo], name: str, max_bytes: int) -> None:
    """Raise UserError if what an archive's entries state is too large to be read, encrypted, or packed in a
    way that numpy does not write: all before anything is unpacked.
    """
    for entry in entries:
        if entry.flag_bits & 0x1:
            raise UserError(f"{name} is encrypted ({entry.filename}).", "Save it without a password.")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise UserError(
                f"{name} is packed by a method that numpy does not write ({entry.filename}).",
                "Write it with numpy.savez.",
            )
        if entry.compress_type == zipfile.ZIP_STORED and entry.compress_size != entry.file_size:
            raise UserError(f"{name} states two sizes for {entry.filename}.", "Write it with numpy.savez.")
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max_bytes:
        raise UserError(
            f"{name} unpacks to {unpacked / 2**30:.1f} GB; at most {max_bytes / 2**30:.3g} GB are read.",
            "Give a folder of shards, or split the pool.",
        )
    packed = [entry for entry in entries if entry.compress_type != zipfile.ZIP_STORED]
    inflated = sum(entry.file_size for entry in packed)
    stored = sum(entry.compress_size for entry in packed)
    if inflated > MAX_INFLATED_BYTES or is_bomb(packed):
        raise UserError(
            f"{name} unpacks from {stored / 2**20:.3g} MB to {inflated / 2**20:,.0f} MB, as a zip bomb"
            " would.",
            "Save it uncompressed with numpy.savez: plain arrays are mapped, not read.",
        )


def write_npz(
    path: str | Path,
    arrays: Mapping[str, Any],
    *,
    compressed: bool = False,
    dtypes: Mapping[str, np.dtype[Any]] | None = None,
) -> None:
    """Write arrays so that a reader sees the old file or the whole new one; the same arrays give the same
    bytes.

    Large ones are written a block of rows at a time, those in `dtypes` as the type given there.
    """
    with whole_file(path) as file:
        _write_members(file, arrays, zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED, dtypes or {})


def _write_members(
    file: IO[bytes], arrays: Mapping[str, Any], compression: int, dtypes: Mapping[str, np.dtype[Any]]
) -> None:
    with zipfile.ZipFile(file, "w", compression=compression, allowZip64=True) as archive:
        for name, array in arrays.items():
            # np.savez stamps each member with the clock; a fixed date makes the same arrays the same bytes.
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.compress_type = compression
            with archive.open(member, "w", force_zip64=True) as stream:
                write_npy(stream, array, dtypes.get(name))


def _read_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as stream:
        header = read_header(stream)
    shape, dtype = header.shape, header.dtype
    if dtype.hasobject:
        raise ValueError(f"{info.filename} holds Python objects")
    count = math.prod(shape)  # exact: numpy's product of a made-up shape wraps round and passes for small
    if min(shape, default=0) < 0 or info.file_size - header.offset < count * dtype.itemsize:
        raise ValueError(f"{info.filename} is shorter than its header says")
    if count * dtype.itemsize == 0:
        return np.empty(shape if count == 0 else (), dtype)  # nothing to read; a shape of nothings is none
    if info.compress_type != zipfile.ZIP_STORED or header.is_fortran or not shape:
        with archive.open(info) as whole:
            array: NDArray[Any] = npy_format.read_array(whole, allow_pickle=False)
        return array
    return np.memmap(
        path, dtype=dtype, mode="r", offset=_data_offset(path, info) + header.offset, shape=shape
    )


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    # A member's data follows its local header, whose name and extra field may differ from the central
    # directory's.
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name_length, extra_length = np.frombuffer(file.read(4), dtype="<u2")
    return info.header_offset + 30 + int(name_length) + int(extra_length)
