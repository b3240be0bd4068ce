"""Every act under many faults, each in a forked process of its own: a kill, a full disk, a closed one, at a
chosen moment.

Moments are the act's own steps on the disk (files opened for writing, renamed, removed), counted by an audit
hook: the same seed strikes at the same place on a fast machine and on a slow one. Run as
`python -m tests.faults.trial FOLDER SEED N`; prints what went wrong, one line a fault, and nothing else.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.types import UserError
from tests.faults.acts import ACTS, Acknowledge, Act, give_inputs, run_another

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_STEPS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "shutil.rmtree")
DONE, SAID, BROKEN = 0, 2, 3


@dataclass(frozen=True)
class Outcome:
    """How a forked process ended: its exit code (-9: killed), what it acknowledged, and its words."""

    code: int
    acknowledged: int
    words: str


def steps_in(folder: Path, strike: Callable[[int], None]) -> None:
    """Call `strike` with the number of every step on the disk below `folder`, before it happens."""
    n_steps = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal n_steps
        if event not in _STEPS or not str(arguments[0]).startswith(str(folder)):
            return
        if event != "open" or (arguments[2] or 0) & _WRITES:
            n_steps += 1
            strike(n_steps)

    sys.addaudithook(hook)


def fail(code: int, n: int) -> Callable[[int], None]:
    """From the nth step on, the disk refuses."""

    def strike(step: int) -> None:
        if step >= n:
            raise OSError(code, os.strerror(code))

    return strike


def kill(n: int) -> Callable[[int], None]:
    def strike(step: int) -> None:
        if step == n:
            os.kill(os.getpid(), signal.SIGKILL)

    return strike


def attempt(work: Callable[[Acknowledge], None]) -> Outcome:
    """Do something in a forked process and return how it ended."""
    said, acknowledged = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        code = BROKEN
        try:
            work(lambda n: os.write(acknowledged[1], bytes([n])) and None)
            code = DONE
        except (UserError, OSError) as error:  # both front ends make one line of either
            os.write(said[1], str(error).encode()[:1000])
            code = SAID
        except BaseException:  # noqa: BLE001  (whatever else it is, it is reported and fails the test)
            os.write(said[1], traceback.format_exc()[-3000:].encode())
        finally:
            os._exit(code)
    for _, end in (said, acknowledged):
        os.close(end)
    with os.fdopen(said[0], "rb") as words, os.fdopen(acknowledged[0], "rb") as numbers:
        text, n = words.read().decode(), max(numbers.read(), default=0)
    return Outcome(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), n, text)


def count_steps(act: Act, folder: Path) -> int:
    """How many steps the act takes when nothing goes wrong."""
    counter = folder.parent / "steps"
    counter.touch()

    def counted(acknowledge: Acknowledge) -> None:
        steps_in(folder, lambda step: os.truncate(counter, step))
        act.do(folder, acknowledge)

    outcome = attempt(counted)
    assert outcome.code == DONE, outcome.words
    return counter.stat().st_size


def small_files(n_bytes: int) -> None:
    """No file may be longer: a disk that fills up in the middle of a write."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))


def faults(n_steps: int, largest: int, rng: random.Random, n: int) -> dict[str, Callable[[Path], None]]:
    """Name -> how to arm it: n kills and a few refusals of each kind, at moments drawn at random."""
    moments = sorted(rng.sample(range(1, n_steps + 1), min(n, n_steps)))
    chosen: dict[str, Callable[[Path], None]] = {
        f"killed at step {k} of {n_steps}": lambda f, k=k: steps_in(f, kill(k)) for k in moments
    }
    for k in moments[:: max(1, len(moments) // 3)]:
        chosen[f"disk full from step {k} of {n_steps}"] = lambda f, k=k: steps_in(f, fail(errno.ENOSPC, k))
    chosen["read-only disk"] = lambda f: steps_in(f, fail(errno.EROFS, 1))
    for n_bytes in (0, 100, largest - 1):  # the last one strikes the longest file alone, at its very end
        chosen[f"no room beyond {n_bytes} bytes"] = lambda f, b=n_bytes: small_files(b)
    return chosen


def struck(act: Act, folder: Path, arm: Callable[[Path], None], is_kill: bool) -> str:
    """Strike, look at what is left, do it again, compare with what was never struck; return what is wrong."""

    def under_fault(acknowledge: Acknowledge) -> None:
        arm(folder)
        act.do(folder, acknowledge)

    first = attempt(under_fault)
    if first.code not in ((-signal.SIGKILL,) if is_kill else (DONE, SAID)):
        return f"ended with {first.code}: {first.words}"
    if first.code == SAID and (not first.words or "\n" in first.words):
        return f"said not one line: {first.words!r}"
    looked = attempt(lambda _: act.check(folder, first.acknowledged))
    if looked.code != DONE:
        return f"left what is wrong: {looked.words}"
    again = attempt(lambda acknowledge: act.do(folder, acknowledge))
    if again.code != DONE:
        return f"could not be done again: {again.words}"
    whole = folder.parent / "whole"
    return "" if act.trace(folder) == act.trace(whole) else "done again, it differs"


def main(name: str, root: Path, seed: int, n: int) -> None:
    """Try every fault on one act and print what went wrong."""
    act = ACTS[name]
    root.mkdir()
    give_inputs(root)
    (root / "whole").mkdir()
    n_steps = count_steps(act, root / "whole")
    largest = max(path.stat().st_size for path in (root / "whole").rglob("*") if path.is_file())
    for number, (fault, arm) in enumerate(faults(n_steps, largest, random.Random(seed), n).items()):
        folder = root / f"{number}"
        folder.mkdir()
        if problem := struck(act, folder, arm, "killed" in fault):
            print(f"{name}, {fault}: {problem}"[:2000].replace("\n", " | "))


def together(root: Path) -> None:
    """Two processes at one store at the same time, with the same family and with another one."""
    for name, other in {"the same": ACTS["run"].do, "another": run_another}.items():
        folder = root / name
        folder.mkdir()
        beside = os.fork()
        if not beside:
            os._exit(attempt(lambda acknowledge, do=other, f=folder: do(f, acknowledge)).code)
        here = attempt(lambda acknowledge, folder=folder: ACTS["run"].do(folder, acknowledge))
        there = os.waitstatus_to_exitcode(os.waitpid(beside, 0)[1])
        if (here.code, there) != (DONE, DONE):
            print(f"two at once, {name} family: ended with {here.code} and {there}: {here.words}")
        want, got = ACTS["run"].trace(root / "whole"), ACTS["run"].trace(folder)
        if not want.items() <= got.items():
            print(f"two at once, {name} family: the results differ")


if __name__ == "__main__":
    for each in ACTS:
        main(each, Path(sys.argv[1]) / each, int(sys.argv[2]), int(sys.argv[3]))
    together(Path(sys.argv[1]) / "run")
