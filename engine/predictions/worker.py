"""A worker process: receives a job on stdin, then model names one a line; leaves each result in the store and
reports on stdout.

Bounded in memory, and in processor time for each batch. Needs numpy and onnxruntime only, and LiteRT for
files of that runtime. When stdin closes, the parent is gone or has had enough: the worker stops at the next
batch.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from engine.family.model_file import ModelFile
from engine.guard.child import limit_processor, set_limits
from engine.guard.limits import Limits
from engine.predictions.job import FileTask, Job, Part
from engine.predictions.model import Judge, UnusableModelError
from engine.teacher.facts import facts_of, read_facts, with_weights
from engine.types import Teacher, UserError

_INTERVAL = 0.1  # seconds between reports of images


def send_job(file: IO[bytes], job: Job) -> None:
    """Write a job as one JSON line followed by the graph without its kernels and the kernels' raw bytes. (No
    pickle, even among our own.)
    """
    header = {
        "parts": _listed(job.parts),
        "levels": job.levels,
        "n_classes": job.n_classes,
        "n_raced": job.n_raced,
        "files": {name: [task.model.to_json(), _listed(task.parts)] for name, task in job.files.items()},
        "graph": len(job.graph),
        "teacher": None if job.teacher is None else facts_of(job.teacher),
    }
    file.write(json.dumps(header).encode() + b"\n")
    file.write(job.graph)
    if job.teacher is not None:
        for kernel in job.teacher.kernels:
            file.write(np.ascontiguousarray(job.teacher.weights[kernel.name], np.float32).tobytes())
    file.flush()


def _listed(parts: Sequence[Part]) -> list[tuple[str, str, int]]:
    return [(str(part.pixels), str(part.folder), part.n_images) for part in parts]


def receive_job(file: IO[bytes]) -> Job:
    """Read what `send_job` wrote."""
    header: dict[str, Any] = json.loads(file.readline())
    graph = file.read(header["graph"])
    files = {
        name: FileTask(ModelFile.from_json(model), _parts(parts))
        for name, (model, parts) in header["files"].items()
    }
    return Job(
        teacher=None if header["teacher"] is None else _receive_teacher(header["teacher"], file),
        graph=graph,
        parts=_parts(header["parts"]),
        levels=tuple(header["levels"]),
        n_classes=header["n_classes"],
        files=files,
        n_raced=header["n_raced"],
    )


def _parts(listed: Sequence[Sequence[Any]]) -> tuple[Part, ...]:
    return tuple(Part(Path(pixels), Path(folder), n_images) for pixels, folder, n_images in listed)


def _receive_teacher(header: dict[str, Any], file: IO[bytes]) -> Teacher:
    facts = read_facts(header)
    weights = {
        kernel.name: np.frombuffer(file.read(4 * kernel.size), np.float32).reshape(kernel.shape)
        for kernel in facts.kernels
    }
    return with_weights(facts, b"", weights)  # the job carries the graph


def _own_stdout() -> IO[str]:
    """Return the pipe to the parent, and send what a runtime prints on stdout to stderr instead."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return pipe


class _Counter:
    """Counts images and tells of them now and then: the parent needs the cores that the models run on."""

    def __init__(self, report: Callable[[int], None]) -> None:
        self._report, self._n_untold, self._told = report, 0, 0.0

    def count(self, n: int) -> None:
        """Count n more images."""
        self._n_untold += n
        if time.monotonic() - self._told >= _INTERVAL:
            self.tell()

    def tell(self) -> None:
        """Report what was not yet told."""
        if self._n_untold:
            self._report(self._n_untold)
        self._n_untold, self._told = 0, time.monotonic()


def main() -> None:
    """Serve one parent until its stdin closes."""
    # an interrupt is the parent's to handle; it closes our stdin
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = _own_stdout()
    limits = Limits(**json.loads(sys.argv[1]))
    set_limits(limits)

    def report(**message: Any) -> None:
        limit_processor(limits.seconds)  # of the next batch
        pipe.write(json.dumps(message) + "\n")
        pipe.flush()

    counter = _Counter(lambda n: report(images=n))
    judge = Judge(receive_job(sys.stdin.buffer))
    report(ready=True)
    names: queue.Queue[str | None] = queue.Queue()
    closed = threading.Event()

    def listen() -> None:
        for line in sys.stdin.buffer:
            names.put(json.loads(line))
        closed.set()
        names.put(None)

    threading.Thread(target=listen, daemon=True).start()
    while (name := names.get()) is not None and not closed.is_set():
        try:
            if judge.judge(name, closed.is_set, counter.count):
                counter.tell()
                report(done=name)
        except UnusableModelError as error:
            counter.tell()
            report(failed=name, reason=str(error), n_left=error.n_left)
        except UserError as error:
            report(refused=error.args)


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)  # results are stored; taking the runtimes down in order would keep the parent waiting
