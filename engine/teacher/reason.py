"""Shorten what a framework says when it fails to one line that fits into a sentence for the user."""

from __future__ import annotations

import re

LONGEST = 240
# onnxruntime opens with its name, a number and a word that mean nothing to a person
_OPENING = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")


def reason(error: BaseException) -> str:
    """The first line of an exception's message, without its full stop; its type if it has none."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return _OPENING.sub("", lines[0])[:LONGEST].rstrip(". ") if lines else type(error).__name__
