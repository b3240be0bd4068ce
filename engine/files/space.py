"""Room on a disk: refuse a write that cannot fit before it starts, and say in one line when a disk fills up.

Knows folders and bytes. Knows nothing of what is written.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.types import UserError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def room_for(path: str | Path, n_bytes: int) -> Iterator[None]:
    """Guard the writing of n_bytes to `path`: raise UserError if its disk has less, or turns out to."""
    folder = next(parent for parent in (Path(path), *Path(path).absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(folder).free
    if n_bytes > free:
        raise UserError(
            f"{Path(path).name} takes {_size(n_bytes)} and its disk has {_size(free)} left.",
            "Free space, write elsewhere, or halve it with float16; what was computed is kept.",
            option=("out", "dtype"),
        )
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise UserError(
            f"the disk ran full while {Path(path).name} was written ({os.strerror(error.errno)}).",
            f"Free {_size(n_bytes)} or write elsewhere; what was computed is kept.",
            option="out",
        ) from None


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"
