"""Many models over the pool on a Ray cluster: blocks go out, whole results come into the store.

Knows scheduling, progress, stopping and lost nodes. A finished block is a file in the store at once, so a
lost node costs its running blocks only and an interrupted run goes on from what is there.
"""

from __future__ import annotations

import hashlib
import io
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from engine.predictions.job import FILE_PREFIX, TEACHER, Job, batch_size
from engine.predictions.ray_cluster import Cluster, joined
from engine.predictions.ray_tasks import Block, blocks_of, left_blocks, run_block
from engine.predictions.runner import Watch, give_up
from engine.predictions.store import is_intact, read_array, write_array
from engine.predictions.worker import send_job
from engine.types import UserError

_POLL = 0.2  # seconds between looks at the clock and at `cancel`
# Batches of a task, at least and at most: every process builds the models it meets, so few large tasks waste
# less, and a lost one costs two minutes of a large network.
_BATCHES = (128, 1024)
_TASKS = 4  # tasks a core that a run is cut into if it can be, so that all cores end together
_IN_FLIGHT = 2  # tasks a core, so that none waits for the driver
_RETRIES = 5  # of one block, each on another process or node


def run_on_ray(job: Job, names: Sequence[str], address: str, store: Path, watch: Watch) -> None:
    """Judge every named model on the cluster at `address`, in this order; return early when told to stop.

    The bytes are those of a local run: blocks end where batches end. Raises UserError if the cluster cannot
    be used or what is asked for needs one process.
    """
    if job.n_raced:
        raise UserError(
            "giving up hopeless candidates early reads their images in order, which a cluster does not.",
            "Leave one of the two out.",
            option=("ray", "give_up_hopeless"),
        )
    if not names:
        return
    with joined(address, store) as cluster:
        if job.files and not cluster.is_shared:
            raise UserError(
                "model files are read where they lie, and not every node of the cluster sees the store.",
                "Put store and files into a folder that all nodes see.",
                option=("store", "ray"),
            )
        _Campaign(job, cluster, watch).run(names)


class _Campaign:
    """One run: what waits, what is out, and what is left of each model."""

    def __init__(self, job: Job, cluster: Cluster, watch: Watch) -> None:
        self._job, self._watch, self._ray, self._cluster = job, watch, cluster.ray, cluster
        message = io.BytesIO()
        send_job(message, job)
        self._key = hashlib.sha256(message.getbuffer()).hexdigest()
        self._sent = self._ray.put(np.frombuffer(message.getbuffer(), np.uint8))
        self._task = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(run_block)
        self._pixels: dict[tuple[Path, int], Any] = {}
        self._out: dict[Any, Block] = {}
        self._left: dict[str, int] = {}
        self._blocks: dict[str, list[Block]] = {}

    def run(self, names: Sequence[str]) -> None:
        waiting: deque[Block] = deque()
        for name in names:
            self._blocks[name] = blocks_of(self._job, name, self._rows(name, len(names)))
            own = [block for block in self._blocks[name] if not self._found(block)]
            self._left[name] = len(own)
            waiting.extend(own)
            if not own:
                self._assemble(name)
        try:
            while (waiting or self._out) and not self._watch.stop():
                while waiting and len(self._out) < _IN_FLIGHT * self._cluster.n_cores:
                    self._send(waiting.popleft())
                self._receive()
        finally:
            for answer in self._out:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(answer, force=False)

    def _rows(self, name: str, n_models: int) -> int:
        """Return how many images a task of this model has."""
        file = self._job.files.get(name)
        teacher = self._job.teacher
        preprocessing = file.model.input.preprocessing if file else teacher.preprocessing if teacher else None
        assert preprocessing is not None
        batch, pieces = batch_size(preprocessing), -(-_TASKS * self._cluster.n_cores // n_models)
        least, most = _BATCHES
        return batch * min(most, max(least, -(-self._job.n_images // (batch * pieces))))

    def _found(self, block: Block) -> bool:
        """Count a block that an interrupted run left in the store."""
        part = self._job.parts_of(block.name)[block.part]
        if not is_intact(block.path(part)):
            return False
        self._watch.images(block.n_images)
        return True

    def _send(self, block: Block) -> None:
        if block.name in self._watch.failures:
            return
        pixels = None
        if not self._cluster.is_shared:
            part = self._job.parts_of(block.name)[block.part]
            key = (part.pixels, block.start)
            if key not in self._pixels:  # put once, read by every model
                whole = np.load(part.pixels, mmap_mode="r", allow_pickle=False)
                self._pixels[key] = self._ray.put(np.array(whole[block.start : block.stop]))
            pixels = self._pixels[key]
        self._out[self._task.remote(self._sent, self._key, block, pixels)] = block

    def _receive(self) -> None:
        ready, _ = self._ray.wait(list(self._out), num_returns=1, timeout=_POLL) if self._out else ([], None)
        for answer in ready:
            block = self._out.pop(answer)
            try:
                self._note(block, self._ray.get(answer))
            except self._ray.exceptions.WorkerCrashedError:
                if block.name not in self._job.files:  # one of ours does not crash: memory, most likely
                    raise UserError(
                        f"a process that ran {block.name} ended {_RETRIES + 1} times, most likely for lack of"
                        " memory. What was finished is kept: run again on larger nodes."
                    ) from None
                self._note(block, {"failed": "its runtime crashed"})
            except self._ray.exceptions.RayError as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
                raise UserError(
                    f"the cluster lost {block.name} for good ({reason}). What was finished is kept: run"
                    " again."
                ) from None

    def _note(self, block: Block, answer: dict[str, Any]) -> None:
        if "refused" in answer:
            raise UserError(*answer["refused"])
        if "failed" in answer:
            if block.name not in self._watch.failures:
                give_up(block.name, answer["failed"], 0, self._watch)
            return
        if answer["probs"] is not None:
            write_array(block.path(self._job.parts_of(block.name)[block.part]), answer["probs"])
        self._watch.images(block.n_images)
        self._left[block.name] -= 1
        if not self._left[block.name]:
            self._assemble(block.name)

    def _assemble(self, name: str) -> None:
        """Join a model's blocks into its result and remove them."""
        for index, part in enumerate(self._job.parts_of(name)):
            blocks = [block for block in self._blocks[name] if block.part == index]
            if not blocks:
                continue
            probs = np.empty((part.n_images, self._job.n_classes), np.float32)
            for block in blocks:
                values = read_array(block.path(part), (block.n_images, self._job.n_classes))
                if values is None:
                    raise UserError(
                        f"a block of {name.removeprefix(FILE_PREFIX) or TEACHER} was changed in the store"
                        " while the run went on. Run again: the rest is kept."
                    )
                probs[block.start : block.stop] = values
            write_array(part.result(name), probs)
            for path in left_blocks(part, name).values():
                path.unlink(missing_ok=True)
                path.with_suffix(".sha256").unlink(missing_ok=True)
