"""A framework's failure in one line."""

from __future__ import annotations

import pytest

from engine.teacher.reason import LONGEST, reason


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("\n  It broke.\nTraceback follows", "It broke"),
        ("no such op", "no such op"),
        ("", "ValueError"),
        ("  \n ", "ValueError"),
        ("x" * 1000, "x" * LONGEST),
    ],
)
def test_the_first_line_without_its_full_stop(message: str, expected: str) -> None:
    assert reason(ValueError(message)) == expected
