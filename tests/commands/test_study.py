"""`study` on the terminal: its progress line."""

from __future__ import annotations

import io
import sys

import pytest

from engine.commands import study


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_drawn_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert study._progress_bar() is None
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    draw = study._progress_bar()
    assert draw is not None
    draw(0, 4)
    draw(2, 4)
    draw(4, 4)
    drawn = screen.getvalue()
    assert "[............" in drawn
    assert "2/4 families, about 0 s left" in drawn
    assert drawn.endswith("4/4 families\x1b[K\n")
