"""A worker process: receives a job on stdin, then model names one a line; leaves each result in the store and
reports on stdout.

Needs numpy and onnxruntime only. When stdin closes, the parent is gone or has had enough: the worker stops at
the next batch.
"""

from __future__ import annotations

import json
import queue
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import numpy as np

from engine.predictions.model import Job, Judge, Part, UnusableModelError
from engine.types import Kernel, Preprocessing, Teacher, UserError


def send_job(file: IO[bytes], job: Job) -> None:
    """Write a job as one JSON line followed by the graph without its kernels and the kernels' raw bytes. (No
    pickle, even among our own.)
    """
    teacher = job.teacher
    header = {
        "parts": [[str(part.pixels), str(part.folder), part.n_images] for part in job.parts],
        "levels": job.levels,
        "n_raced": job.n_raced,
        "name": teacher.name,
        "graph": len(job.graph),
        "kernels": [asdict(kernel) for kernel in teacher.kernels],
        "preprocessing": teacher.preprocessing.to_json(),
        "class_names": teacher.class_names,
        "output": teacher.output,
        "float_bytes": teacher.float_bytes,
    }
    file.write(json.dumps(header).encode() + b"\n")
    file.write(job.graph)
    for kernel in teacher.kernels:
        file.write(np.ascontiguousarray(teacher.weights[kernel.name], np.float32).tobytes())
    file.flush()


def receive_job(file: IO[bytes]) -> Job:
    """Read what `send_job` wrote."""
    header: dict[str, Any] = json.loads(file.readline())
    graph = file.read(header["graph"])
    kernels = tuple(
        Kernel(k["name"], tuple(k["shape"]), tuple(k["axes"]), k["op"], k["groups"])
        for k in header["kernels"]
    )
    weights = {k.name: np.frombuffer(file.read(4 * k.size), np.float32).reshape(k.shape) for k in kernels}
    teacher = Teacher(
        name=header["name"],
        source="",
        graph=b"",  # the job carries it
        kernels=kernels,
        weights=weights,
        preprocessing=Preprocessing.from_json(header["preprocessing"]),
        class_names=tuple(header["class_names"]),
        output=header["output"],
        float_bytes=header["float_bytes"],
    )
    parts = tuple(Part(Path(pixels), Path(folder), n_images) for pixels, folder, n_images in header["parts"])
    return Job(teacher, graph, parts, tuple(header["levels"]), header["n_raced"])


def _report(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve one parent until its stdin closes."""
    # an interrupt is the parent's to handle; it closes our stdin
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    judge = Judge(receive_job(sys.stdin.buffer))
    _report(ready=True)
    names: queue.Queue[str | None] = queue.Queue()
    closed = threading.Event()

    def listen() -> None:
        for line in sys.stdin.buffer:
            names.put(line.decode().strip())
        closed.set()
        names.put(None)

    threading.Thread(target=listen, daemon=True).start()
    while (name := names.get()) is not None and not closed.is_set():
        try:
            if judge.judge(name, closed.is_set, lambda n: _report(images=n)):
                _report(done=name)
        except UnusableModelError as error:
            _report(failed=name, reason=str(error), n_left=error.n_left)
        except UserError as error:
            _report(refused=error.args)


if __name__ == "__main__":
    main()
