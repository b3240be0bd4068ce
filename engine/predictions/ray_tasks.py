"""The part of a Ray run that happens on a node: one model over one block of the pool, and nothing kept.

A task can be run again anywhere and leaves the same bytes; a result is a whole file or none. Needs numpy and
onnxruntime only.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.predictions.job import Job, Part
from engine.predictions.model import Judge, UnusableModelError
from engine.predictions.store import is_intact, write_array
from engine.predictions.worker import receive_job
from engine.types import UserError


@dataclass(frozen=True)
class Block:
    """One task: a model, one of its parts, and the rows [start, stop) of it."""

    name: str
    part: int
    start: int
    stop: int

    @property
    def n_images(self) -> int:
        return self.stop - self.start

    def path(self, part: Part) -> Path:
        """Return where the block's probabilities are stored until the model is complete."""
        whole = part.result(self.name)
        return whole.with_name(f".{whole.stem}.{self.start}-{self.stop}.npy")


class _Desk:
    """What a process keeps between tasks: the job it serves and the model it ran last."""

    def __init__(self) -> None:
        self._key = ""
        self._judge: Judge | None = None

    def take(self, job: NDArray[np.uint8], key: str) -> Judge:
        if self._judge is None or key != self._key:
            self._key, self._judge = key, Judge(receive_job(io.BytesIO(job.tobytes())))
        return self._judge


_DESK = _Desk()


def run_block(job: NDArray[np.uint8], key: str, block: Block, pixels: NDArray[Any] | None) -> dict[str, Any]:
    """Judge one block and say how it went: {"done": True, "probs": ...}, {"failed": reason} or {"refused":
    ...}.

    `job` is what `send_job` wrote, as an array: Ray maps arrays where it would copy bytes for every task; a
    process reads it once for each `key`. Without `pixels` (n, ...) the node sees the store: it reads them
    there and leaves the probabilities as a whole file. With them, the probabilities go back with the answer.
    """
    judge = _DESK.take(job, key)
    part = judge.job.parts_of(block.name)[block.part]
    if pixels is None and is_intact(block.path(part)):  # a lost answer, not a lost result
        return {"done": True, "probs": None}
    try:
        images = _read(part, block) if pixels is None else pixels
        probs = judge.judge_block(block.name, images)
        if pixels is None:
            write_array(block.path(part), probs)
    except UnusableModelError as error:
        return {"failed": str(error)}
    except UserError as error:
        return {"refused": error.args}
    return {"done": True, "probs": None if pixels is None else probs}


def _read(part: Part, block: Block) -> NDArray[Any]:
    pixels: NDArray[Any] = np.load(part.pixels, mmap_mode="r", allow_pickle=False)
    return pixels[block.start : block.stop]


def blocks_of(job: Job, name: str, rows: int) -> list[Block]:
    """Return the blocks of a model that its stored parts do not cover yet: those that an interrupted run left
    in the store, whatever their size, and blocks of at most `rows` images between them.
    """
    return [
        Block(name=name, part=index, start=start, stop=stop)
        for index, part in enumerate(job.parts_of(name))
        if not is_intact(part.result(name))
        for start, stop in _cover(left_blocks(part, name), part.n_images, rows)
    ]


def left_blocks(part: Part, name: str) -> dict[tuple[int, int], Path]:
    """Return the blocks of a model that lie in the store, by their rows [start, stop)."""
    prefix = f".{part.result(name).stem}."
    found = {}
    for path in part.folder.glob(".*.npy"):
        rows = re.fullmatch(r"(\d+)-(\d+)", path.stem.removeprefix(prefix))
        if path.name.startswith(prefix) and rows:
            found[int(rows[1]), int(rows[2])] = path
    return found


def _cover(left: dict[tuple[int, int], Path], n_images: int, rows: int) -> Iterator[tuple[int, int]]:
    """Yield the rows [start, stop) of each block of a part, in order and without a gap."""
    at = 0
    intact = sorted(span for span, path in left.items() if is_intact(path) and span[1] <= n_images)
    for start, stop in [*intact, (n_images, n_images)]:
        if start < at:  # it overlaps one that is taken
            continue
        yield from ((first, min(first + rows, start)) for first in range(at, start, rows))
        if stop > start:
            yield start, stop
        at = stop
