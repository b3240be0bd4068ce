"""Functions that end in every way a guarded child can end. Run in a child only."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from engine.guard import Child, progress, stage
from engine.types import UserError


def answer(child: Child, **arguments: Any) -> dict[str, Any]:
    (child.folder / "made.txt").write_text("made by the child")
    print("a library that talks on stdout")
    return {"arguments": arguments, "cwd": os.getcwd(), "tmp": os.environ["TMPDIR"], "home": str(Path.home())}


def refuse(child: Child) -> None:
    raise UserError("the file is green. Paint it blue.")


def fail(child: Child) -> None:
    stage("reading the palette")
    raise RuntimeError("no such colour")


def loop(child: Child) -> None:
    stage("counting")
    while True:
        pass


def sleep(child: Child) -> None:
    stage("sleeping")
    time.sleep(60)


def step(child: Child, n: int, seconds: float) -> int:
    stage("stepping")
    for done in range(n):
        time.sleep(seconds)
        progress(done + 1, n)
    return n


def allocate(child: Child, n_bytes: int) -> int:
    stage("filling memory")
    return int(np.ones(n_bytes, np.uint8).sum())


def write(child: Child, n_bytes: int) -> None:
    stage("writing")
    with (child.folder / "large").open("wb") as file:
        for _ in range(n_bytes >> 16):
            file.write(bytes(1 << 16))


def scatter(child: Child, n_files: int) -> None:
    stage("writing many files")
    for index in range(n_files):
        (child.folder / f"part-{index}").write_bytes(bytes(1 << 16))
        time.sleep(0.01)


def open_files(child: Child, n_files: int) -> int:
    return len([Path(os.devnull).open() for _ in range(n_files)])


def crash(child: Child, number: int) -> None:
    stage("decoding")
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def leave_a_process(child: Child) -> int:
    """Start a process that would outlive us, as a library's server might."""
    return os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", "import time; time.sleep(60)"])


def recurse(child: Child) -> None:
    stage("unfolding")
    recurse(child)


def reply(content: bytes, deed: str = "") -> tuple[dict[str, Any], bytes]:
    """What a standing child does with one part: answer, refuse, or fall in one of the ways a child can."""
    if deed == "refuse":
        raise UserError("the part is green.", "Paint it blue.")
    if deed == "fail":
        raise RuntimeError("no such colour")
    if deed == "loop":
        while True:
            pass
    if deed == "sleep":
        time.sleep(60)
    if deed == "allocate":
        np.ones(3_000_000_000, np.uint8)
    if deed == "crash":
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    if deed == "print":
        print("a library that talks on stdout")
    return {"pid": os.getpid()}, content[::-1]
