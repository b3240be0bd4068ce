"""The part of a Ray run that happens on a node: one model over one block of the pool, and nothing kept.

A task can be run again anywhere and leaves the same bytes; a result is a whole file or none. Needs numpy and
onnxruntime only.
"""

from __future__ import annotations

import hashlib
import io
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

    def take(self, job: bytes) -> Judge:
        key = hashlib.sha256(job).hexdigest()
        if self._judge is None or key != self._key:
            self._key, self._judge = key, Judge(receive_job(io.BytesIO(job)))
        return self._judge


_DESK = _Desk()


def run_block(job: bytes, block: Block, pixels: NDArray[Any] | None) -> dict[str, Any]:
    """Judge one block and say how it went: {"done": True, "probs": ...}, {"failed": reason} or {"refused":
    ...}.

    Without `pixels` (n, ...) the node sees the store: it reads them there and leaves the probabilities as a
    whole file. With them, the probabilities go back with the answer.
    """
    judge = _DESK.take(job)
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
    """Return the blocks of a model that its stored parts do not cover yet."""
    return [
        Block(name=name, part=index, start=start, stop=min(start + rows, part.n_images))
        for index, part in enumerate(job.parts_of(name))
        if not is_intact(part.result(name))
        for start in range(0, part.n_images, rows)
    ]
