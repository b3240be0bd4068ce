"""Candidates' probabilities as one (M, N, K) array that stays on disk: read by blocks of rows, checked as
read.

Knows where each candidate's rows lie, in one file or in a shard each. Reads with plain file reads, not memory
maps, so that what was read does not stay resident. Knows nothing of models or rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import FileIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.types import UserError

BIG_BYTES = 1 << 28  # arrays from this size on are read as they are needed
_BLOCK_BYTES = 1 << 21  # read and checked at a time; checking takes seven times that

Check = Callable[[NDArray[Any], int, NDArray[np.int64]], None]


@dataclass(frozen=True)
class Shard:
    """Where the (rows, K) values of one candidate begin: a file and the offset of its first row."""

    path: Path
    offset: int


@dataclass(frozen=True, eq=False)
class Stack:
    """A read-only (M, N, K) array on disk that is indexed as numpy would.

    `stack[m]` is a memory map; `stack[m, rows]`, `stack[:, rows]` and `stack[:, rows, classes]` are arrays in
    memory; plain slices of candidates and rows give another Stack. `check` sees every row before its first
    use: (probabilities (n, K), candidate, rows).
    """

    shards: tuple[Shard, ...]
    n_images: int
    n_classes: int
    dtype: np.dtype[Any]
    check: Check | None = None
    first: int = 0  # rows before this one belong to another part of the same shards
    seen: NDArray[np.bool_] | None = None  # (M, rows of the shards): checked already

    ndim = 3

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.shards), self.n_images, self.n_classes

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self.shards)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[m] for m in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        whole = np.stack([self._rows(m, slice(0, self.n_images)) for m in range(len(self))])
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __getitem__(self, key: Any) -> Any:
        which, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(which, (int, np.integer)):
            m = range(len(self))[int(which)]
            return self._one(m, *rest) if rest else self._map(m)
        if isinstance(which, slice) and (not rest or (len(rest) == 1 and _is_plain(rest[0]))):
            return self._part(which, rest[0] if rest else slice(None))
        if not isinstance(which, slice) and rest and not _is_plain(rest[0]):
            raise TypeError("a stack pairs no candidates with rows: index one of the two at a time")
        members = range(len(self))[which] if isinstance(which, slice) else np.arange(len(self))[which]
        return np.stack([self._one(int(m), *rest) if rest else self._map(int(m)) for m in members])

    def whole_file_of(self, m: int) -> Path | None:
        """Return the .npy file that holds this candidate's rows and nothing else, if there is one."""
        path, width = self.shards[m].path, self.n_classes * self.dtype.itemsize
        whole = self.first == 0 and path.stat().st_size == self.shards[m].offset + self.n_images * width
        return path if whole and path.suffix == ".npy" else None

    def _one(self, m: int, rows: Any, *classes: Any) -> NDArray[Any]:
        if _is_plain(rows):
            values = self._rows(m, rows)
        else:
            index = np.arange(self.n_images)[rows]
            values = self._map(m, check=False)[index]
            self._inspect(m, values.reshape(-1, self.n_classes), index.reshape(-1))
        if not classes:
            return np.asarray(values)
        if _is_plain(rows):
            return np.asarray(values[(slice(None), *classes)])
        lead = np.ix_(*map(np.arange, index.shape)) if index.ndim > 1 else (np.arange(len(index)),)
        return np.asarray(values[(*lead, *classes)])

    def _part(self, which: slice, rows: slice) -> Stack:
        start, stop, _ = rows.indices(self.n_images)
        return replace(
            self,
            shards=self.shards[which],
            n_images=max(0, stop - start),
            first=self.first + start,
            seen=None if self.seen is None else self.seen[which],
        )

    def _rows(self, m: int, rows: slice) -> NDArray[Any]:
        """Read some rows of one candidate into memory."""
        start, stop, _ = rows.indices(self.n_images)
        values = np.empty((max(0, stop - start), self.n_classes), self.dtype)
        width = self.n_classes * self.dtype.itemsize
        with self.shards[m].path.open("rb", buffering=0) as file:
            file.seek(self.shards[m].offset + (self.first + start) * width)
            _fill(file, values, self.shards[m].path)
        self._inspect(m, values, np.arange(start, start + len(values)))
        return values

    def _map(self, m: int, *, check: bool = True) -> NDArray[Any]:
        """Map one candidate's rows; all of them are checked first unless the caller does."""
        if (
            check
            and self.seen is not None
            and not self.seen[m, self.first : self.first + self.n_images].all()
        ):
            step = max(1, _BLOCK_BYTES // (self.n_classes * self.dtype.itemsize))
            for start in range(0, self.n_images, step):
                self._rows(m, slice(start, start + step))
        shard, width = self.shards[m], self.n_classes * self.dtype.itemsize
        offset = shard.offset + self.first * width
        return np.memmap(shard.path, self.dtype, "r", offset, (self.n_images, self.n_classes))

    def _inspect(self, m: int, values: NDArray[Any], rows: NDArray[np.int64]) -> None:
        if self.check is None or self.seen is None:
            return
        places = rows + self.first
        if not self.seen[m, places].all():
            self.check(values, m, rows)
            self.seen[m, places] = True


def in_memory(stack: Stack) -> Any:
    """Return a stack as an array in memory, unless it is too large for that."""
    if not len(stack):
        return np.empty(stack.shape, stack.dtype)
    return stack if stack.nbytes >= BIG_BYTES else np.asarray(stack)


def _is_plain(index: Any) -> bool:
    return isinstance(index, slice) and index.step in (None, 1)


def _fill(file: FileIO, values: NDArray[Any], path: Path) -> None:
    view, done = memoryview(values.reshape(-1).view(np.uint8)), 0  # type: ignore[arg-type]  # numpy's stubs
    while done < len(view):
        got = file.readinto(view[done:])
        if not got:
            raise UserError(f"{path.name} ends too early; it was changed while it was read. Write it again.")
        done += got
