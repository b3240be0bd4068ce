"""Arrays in the .npy format, larger than memory if need be: read a header alone, write a block of rows at a
time.

Knows the format. Knows nothing of what the arrays mean.
"""

from __future__ import annotations

import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

_BLOCK_BYTES = 1 << 24
# What numpy lets through from the parser it reads a header with, beside ValueError
STRANGE_HEADER = (tokenize.TokenError, SyntaxError, TypeError, RecursionError, MemoryError, OverflowError)


@dataclass(frozen=True)
class Header:
    """What an .npy file says of itself, and where its values begin."""

    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    offset: int


def read_header(file: IO[bytes]) -> Header:
    """Read the header of a file that is open at its beginning. Raises ValueError if it is none."""
    try:
        version = npy_format.read_magic(file)
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        return Header(*read(file), file.tell())
    except STRANGE_HEADER as error:
        raise ValueError(f"its header cannot be read: {type(error).__name__}") from None


def write_npy(file: IO[bytes], array: Any, dtype: np.dtype[Any] | None = None) -> None:
    """Write an array, or whatever is indexed like one, as `dtype`; the bytes equal those of numpy.save."""
    stored = np.dtype(array.dtype if dtype is None else dtype)
    if not array.ndim or stored.hasobject:
        npy_format.write_array(file, np.asarray(array, stored), allow_pickle=False)  # refuses Python objects
        return
    header = {"descr": npy_format.dtype_to_descr(stored), "fortran_order": False, "shape": array.shape}
    npy_format.write_array_header_1_0(file, header)
    for block in row_blocks(array):
        file.write(np.ascontiguousarray(block, stored).tobytes())


def row_blocks(array: Any) -> Iterator[NDArray[Any]]:
    """Yield an array's rows in their order, few enough at a time to hold."""
    if array.ndim == 3:
        step = _rows_a_block(array.shape[2], array.dtype)
        for m in range(array.shape[0]):
            for start in range(0, array.shape[1], step):
                yield array[m, start : start + step]
        return
    step = _rows_a_block(int(np.prod(array.shape[1:])), array.dtype)
    for start in range(0, len(array), step):
        yield array[start : start + step]


def _rows_a_block(width: int, dtype: np.dtype[Any]) -> int:
    return max(1, _BLOCK_BYTES // max(1, width * dtype.itemsize))
