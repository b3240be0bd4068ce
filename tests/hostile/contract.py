"""The contract every hostile file is held to: exit 0 or 2, one line if refused, no traceback, bounded time
and memory, nothing new or changed but what the command is to write: not in its folder, beside it, in the
temporary folder nor at home.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.__main__ import main
from tests.hostile.surroundings import CANARY, Peak, everything_in, resident

SECONDS = 30.0  # of one case; they take milliseconds on a machine that is not crowded
MEMORY = 4e9  # what one file may have, libraries that read it included, beyond what earlier tests left loaded


class Contract:
    """A folder with a canary beside it, and commands that must leave both as they were."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = root / "work"
        for folder in (self.folder, root / "tmp", root / "home"):
            folder.mkdir()
            (folder / "canary").write_bytes(CANARY)
        (root / "canary").write_bytes(CANARY)
        self._root, self._capsys = root, capsys

    def run(self, *arguments: object, made: Sequence[str] = ()) -> str:
        """Run a command; return what it said on stderr, empty if it succeeded. `made` may be new
        afterwards.
        """
        but = ("logs", *(f"work/{name}" for name in made))
        before, started = everything_in(self._root, but=but), time.monotonic()
        self._capsys.readouterr()
        held = resident(os.getpid())
        with Peak(os.getpid()) as peak:
            code = main([str(argument) for argument in arguments])
        printed = self._capsys.readouterr()
        assert code in (0, 2), printed.err
        assert "Traceback" not in printed.err + printed.out
        assert time.monotonic() - started < SECONDS
        assert peak.bytes - held < MEMORY
        assert everything_in(self._root, but=but) == before
        if code == 0:
            return ""
        lines = [line for line in printed.err.splitlines() if line.strip()]
        assert len(lines) == 1, printed.err
        assert len(lines[0]) < 1000
        assert lines[0].isprintable()
        return lines[0]
