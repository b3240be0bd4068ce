"""Shorten what a framework says when it fails to one line that fits into a sentence for the user."""

from __future__ import annotations

LONGEST = 240


def reason(error: BaseException) -> str:
    """The first line of an exception's message, without its full stop; its type if it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:LONGEST].rstrip(". ") if lines else type(error).__name__
