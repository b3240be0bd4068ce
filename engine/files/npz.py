"""Read and write `.npz` archives safely: no pickles, bounded, memory-mapped where stored plain, written in
one step.

Knows the archive format. Knows nothing of what the arrays mean.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from engine.files.npy import read_header, write_npy
from engine.files.whole_file import whole_file
from engine.types import UserError

MAX_UNPACKED_BYTES = 16 << 30  # a file that claims more is refused before anything is unpacked


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
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            members = {name: info for name, info in members.items() if name in wanted}
            unpacked = sum(info.file_size for info in members.values())
            if unpacked > max_bytes:
                raise UserError(
                    f"{path.name} unpacks to {unpacked / 2**30:.1f} GB; at most {max_bytes / 2**30:.3g} GB"
                    " are read. Give a folder of shards, or split the pool."
                )
            return {name: _read_member(path, archive, info) for name, info in members.items()}
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise UserError(
            f"{path.name} is not a readable .npz archive ({error}). Write it with numpy.savez."
        ) from None
    except ValueError as error:
        raise UserError(
            f"{path.name} holds an array that cannot be read safely ({error}). Save plain numeric or string"
            " arrays."
        ) from None


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
    if info.compress_type != zipfile.ZIP_STORED or header.is_fortran or count == 0 or not shape:
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
