"""What a command holds and leaves: the most memory of it and all below it, and every file around it."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

CANARY = b"nobody reads or writes this"
_EVERY = 0.05  # seconds between looks
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Peak:
    """The most bytes that a process and all below it held at one time while this was entered."""

    def __init__(self, root: int) -> None:
        self.bytes = 0
        self._root, self._over = root, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.bytes = max(self.bytes, resident(self._root))
            if self._over.wait(_EVERY):
                return


def resident(root: int) -> int:
    """Bytes that a process and all below it hold now."""
    parents, sizes = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # ended meanwhile
                continue
            parents[int(entry.name)], sizes[int(entry.name)] = int(fields[1]), int(fields[21]) * _PAGE
    family, grown = {root}, True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in family}
        grown = not children <= family
        family |= children
    return sum(sizes.get(pid, 0) for pid in family)


def everything_in(root: Path, *, but: Collection[str] = ()) -> dict[str, str]:
    """Every file, link and folder below `root`, with what it holds; without those named in `but` and what is
    in them.
    """
    found = {}
    for base, folders, files in os.walk(root):
        here = Path(base).relative_to(root)
        folders[:] = [name for name in folders if (here / name).as_posix() not in but]
        for name in [*folders, *files]:
            if (here / name).as_posix() not in but:
                found[(here / name).as_posix()] = _digest(Path(base, name))
    return found


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"link to {os.readlink(path)}"
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no file"
