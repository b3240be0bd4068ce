"""What a visitor's pages have computed, kept until its inputs change, the visitor leaves, or others need the
room.

Knows results, keys and bytes. Everything here can be computed again from the session's folder.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
_lock = threading.Lock()
_recent: list[weakref.ref[Memory]] = []  # of all visitors, the one used last at the end


class Memory:
    """One visitor's results by name, each with the key of its inputs."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[Hashable, Any]] = {}

    def keep(self, name: str, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the stored result of `name` if its inputs (`key`) are the same, else compute and store
        it.
        """
        stored = self._results.get(name)
        if stored is None or stored[0] != key:
            stored = (key, compute())
            self._results[name] = stored
        result: T = stored[1]
        return result

    def clear(self) -> None:
        """Let go of everything. A page that is being drawn keeps what it already holds."""
        self._results = {}

    @property
    def n_bytes(self) -> int:
        """Bytes of the arrays that are held; those that lie on disk do not count."""
        return sum(_array_bytes(value) for _, value in list(self._results.values()))


def make_room(memory: Memory, most: int) -> None:
    """Note that this memory is in use, and have those that were used longest ago let go until all hold at
    most `most` bytes.
    """
    with _lock:
        _recent[:] = [ref for ref in _recent if ref() not in (None, memory)]
        others = [other for ref in _recent if (other := ref()) is not None]
        _recent.append(weakref.ref(memory))
        left = most - memory.n_bytes
        for other in reversed(others):
            left -= other.n_bytes
            if left < 0:
                other.clear()


def _array_bytes(value: Any) -> int:
    """Bytes of an array, or of those that an object holds."""
    if isinstance(value, np.ndarray):
        return 0 if isinstance(value, np.memmap) else value.nbytes
    if isinstance(value, tuple | list):
        return sum(_array_bytes(item) for item in value[:100] if isinstance(item, np.ndarray))
    held = getattr(value, "__dict__", {}).values()
    return sum(_array_bytes(item) for item in held if isinstance(item, np.ndarray | tuple | list))
