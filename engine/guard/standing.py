"""A child that stays: takes its limits once, then answers many small requests, each with limits of its own.

Run as `python -m engine.guard.standing`. A batch is one JSON line with what is known of each part and its
length, then the parts' bytes; the answers are a JSON line and bytes for each, in order, so that the parent
knows at which part it fell. No pickle. When stdin closes, the parent is gone and the child ends.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from typing import IO, Any

from engine.guard.child import end_with, limit_processor, named_function, set_limits
from engine.guard.limits import Limits
from engine.types import UserError


def main() -> int:
    """Answer batches until stdin closes; return the exit code."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print belongs in the log
    faulthandler.enable()
    sys.excepthook = end_with
    batches = sys.stdin.buffer
    order: dict[str, Any] = json.loads(batches.readline() or b"null") or {}
    if not order:
        return 0
    limits = Limits(**order["limits"])
    set_limits(limits)
    answer = named_function(order["task"])
    while line := batches.readline():
        # all of it before the first answer: two full pipes would wait for each other
        parts = [(facts, batches.read(length)) for facts, length in json.loads(line)]
        for facts, content in parts:
            limit_processor(limits.seconds)
            try:
                told, made = answer(content, **facts)
            except UserError as error:
                told, made = {"refused": error.args}, b""
            _send(answers, told, made)
    return 0


def _send(answers: IO[bytes], told: dict[str, Any], made: bytes) -> None:
    answers.write(json.dumps({**told, "length": len(made)}).encode() + b"\n")
    answers.write(made)
    answers.flush()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)
