"""The parent's side of children that stay: as many as there are cores, started when needed, replaced when
they fall.

Knows batches and how a child ended at one part of them. Knows nothing of what the parts are.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import IO, Any

from engine.guard import standing
from engine.guard.ends import End, fate
from engine.guard.limits import STARTING, WAITING, Limits
from engine.guard.run import child_environment
from engine.types import UserError

_MAX_LINE = 1 << 16  # bytes of what is told beside an answer
_READ = 1 << 20


@dataclass(frozen=True)
class Part:
    """One request: keyword arguments as plain data, and bytes."""

    facts: Mapping[str, Any]
    content: bytes


@dataclass(frozen=True)
class Answer:
    """What came back for a part."""

    facts: Mapping[str, Any]
    content: bytes


@dataclass(frozen=True)
class Fallen:
    """The child ended at this part; `reason` says how, as the middle of a sentence."""

    reason: str


class _FallenError(Exception):
    """The child is gone; the argument is how it ended."""


class Pool:
    """Children that all run one function; asked from any number of threads."""

    def __init__(self, task: str, limits: Limits, stage: str) -> None:
        self._task, self._limits, self._stage = task, limits, stage
        self._idle: list[_Standing] = []
        self._lock = threading.Lock()
        atexit.register(self.close)

    def ask(self, parts: Sequence[Part]) -> list[Answer | UserError | Fallen]:
        """Return an answer for each part: what the function gave, its refusal, or how the child ended."""
        answers: list[Answer | UserError | Fallen] = []
        while len(answers) < len(parts):
            child = self._take()
            try:
                child.send(parts[len(answers) :])
                while len(answers) < len(parts):
                    answers.append(child.receive())
            except _FallenError as fallen:
                answers.append(Fallen(str(fallen)))
                child.close()
                continue
            except BaseException:
                child.close()  # half an answer is in its pipe
                raise
            with self._lock:
                self._idle.append(child)
        return answers

    def close(self) -> None:
        """End the children that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            child.close()

    def _take(self) -> _Standing:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Standing(self._task, self._limits, self._stage)


class _Standing:
    """One child: its pipes and its clock."""

    def __init__(self, task: str, limits: Limits, stage: str) -> None:
        self._limits, self._stage = limits, stage
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        folder = tempfile.gettempdir()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", standing.__name__],
            cwd=folder,
            env=child_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # an interrupt is the parent's to handle
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        self._buffer = bytearray()
        self._allowed = STARTING * WAITING * limits.seconds  # of its first answer
        self._write(json.dumps({"task": task, "limits": asdict(limits)}).encode() + b"\n")

    def send(self, parts: Sequence[Part]) -> None:
        """Hand a batch over; the child reads all of it before it answers."""
        head = [[dict(part.facts), len(part.content)] for part in parts]
        self._write(json.dumps(head).encode() + b"\n" + b"".join(part.content for part in parts))

    def receive(self) -> Answer | UserError:
        """Wait for the next answer; raise _FallenError if the child ends or takes too long."""
        deadline = time.monotonic() + self._allowed
        while b"\n" not in self._buffer and len(self._buffer) < _MAX_LINE:
            self._fill(deadline)
        told = json.loads(self._taken(self._buffer.find(b"\n") + 1 or len(self._buffer)))
        length = told.pop("length")
        while len(self._buffer) < length:
            self._fill(deadline)
        content = self._taken(length)
        self._allowed = WAITING * self._limits.seconds
        return UserError(*told["refused"]) if "refused" in told else Answer(told, content)

    def _taken(self, length: int) -> bytes:
        """Take the buffer's head, copied once: an answer may be a hundred megabytes."""
        with memoryview(self._buffer) as whole:
            content = bytes(whole[:length])
        del self._buffer[:length]
        return content

    def close(self) -> None:
        """End the child."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout, self._log):
            with suppress(OSError):
                pipe.close()

    def _write(self, content: bytes) -> None:
        with suppress(OSError):  # a child that is gone shows in its closed stdout
            self._stdin.write(content)
            self._stdin.flush()

    def _fill(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self._stdout], [], [], left)[0]:
            self._process.kill()
            raise _FallenError(self._fate("time"))
        content = self._stdout.read(_READ)
        if not content:
            raise _FallenError(self._fate(""))
        self._buffer += content

    def _fate(self, stopped: str) -> str:
        code = self._process.wait()
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        end = End(
            code=code,
            stage=self._stage,
            stopped=stopped,
            allowed=self._limits.seconds,
            last_words=lines[-1].strip() if lines else "",
        )
        return fate(end, self._limits)
