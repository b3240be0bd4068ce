"""The contract every hostile file is held to: exit 0 or 2, one line if refused, no traceback, nothing touched
outside the output folder, bounded time.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.__main__ import main

CANARY = b"nobody reads or writes this"
SECONDS = 30.0  # of one case; they take milliseconds on a machine that is not crowded


class Contract:
    """A folder with a canary beside it, and commands that must leave both as they were."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = root / "work"
        self.folder.mkdir()
        (root / "canary").write_bytes(CANARY)
        (self.folder / "canary").write_bytes(CANARY)
        self._root, self._capsys = root, capsys

    def run(self, *arguments: object, made: Sequence[str] = ()) -> str:
        """Run a command; return what it said on stderr, empty if it succeeded. `made` may be new
        afterwards.
        """
        before, started = self._files(), time.monotonic()
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        assert code in (0, 2), printed.err
        assert "Traceback" not in printed.err + printed.out
        assert time.monotonic() - started < SECONDS
        after = {name: digest for name, digest in self._files().items() if name.split("/")[0] not in made}
        assert after == {name: digest for name, digest in before.items() if name.split("/")[0] not in made}
        if code == 0:
            return ""
        lines = [line for line in printed.err.splitlines() if line.strip()]
        assert len(lines) == 1, printed.err
        assert len(lines[0]) < 1000
        return lines[0]

    def _files(self) -> dict[str, str]:
        paths = [path for path in self._root.rglob("*") if path.is_file() and path.suffix != ".log"]
        return {
            path.relative_to(self.folder if path.is_relative_to(self.folder) else self._root).as_posix()
            + ("" if path.is_relative_to(self.folder) else " outside"): (
                hashlib.sha256(path.read_bytes()).hexdigest()
            )
            for path in paths
        }
