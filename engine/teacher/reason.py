"""Shorten what a framework says when it fails to one line that fits into a sentence for the user."""

from __future__ import annotations

import re

LONGEST = 240
# onnxruntime opens with its name, a number and a word that mean nothing to a person
_OPENING = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")

_NODE = re.compile(
    r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)'(?: Status Message:)?"
)
# the place in onnxruntime's own source, with the C++ signature that stands there
_SOURCE = re.compile(
    r"\S*\.(?:cc|cpp|h|hpp):\d+ (?:[^()]*\((?:[^()]|\([^()]*\))*\)?(?: const)?(?: \[with [^]]*\])?)?"
)


def reason(error: BaseException) -> str:
    """The first line of an exception's message, without its full stop; its type if it has none. Source lines
    and C++ signatures of onnxruntime are left out.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    text = _SOURCE.sub("", _NODE.sub(_operator, _OPENING.sub("", lines[0][: 8 * LONGEST])))
    return " ".join(text.split())[:LONGEST].rstrip(".: ")


def _operator(found: re.Match[str]) -> str:
    name = f" {found[2]!r}" if found[2] else ""
    return f"its operator {found[1]}{name} fails:"
