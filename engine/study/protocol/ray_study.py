"""A study on a Ray cluster: one task for each family and cell, the same tables as on this machine.

Knows tasks and their answers. A family's tables are written when all its cells are there, so an interrupted
study goes on with the families that are left.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from engine.files.whole_file import whole_file
from engine.predictions.file import load_predictions
from engine.predictions.ray_cluster import Cluster, joined
from engine.study.protocol.family_task import describe, finish
from engine.study.protocol.one_family import Cell, cells_of, run_family
from engine.study.protocol.plan import Task
from engine.types import Predictions, UserError

_POLL = 0.2  # seconds between looks at `cancel`
_IN_FLIGHT = 2  # tasks a core
_RETRIES = 5


def outcomes_on_ray(
    todo: Sequence[Task], address: str, cancel: Callable[[], bool] | None
) -> Iterator[tuple[str, str | None]]:
    """Yield (family, reason or None) as families finish on the cluster; stop early when cancelled."""
    if not todo:
        return
    folder = todo[0].rows.parent
    folder.mkdir(parents=True, exist_ok=True)
    with joined(address, folder, [task.path for task in todo]) as cluster:
        yield from _Campaign(cluster, cancel).run(todo)


def run_cell(task: Task, cell: Cell | None, content: bytes | None) -> dict[str, Any]:
    """Study one cell of a family, or describe it (no cell): {"tables": ...} or {"reason": why it cannot take
    part}.

    Runs on a node. `content` is the predictions file where the node does not see it.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    with threadpool_limits(1):  # as on one machine: sums then do not depend on where they are made
        try:
            predictions = _read(task, content)
            if cell is None:
                return {"tables": describe(predictions, task)}
            return {"tables": (run_family(predictions, task.config, name=task.family, cells=[cell]),)}
        except UserError as error:
            return {"reason": str(error)}


def _read(task: Task, content: bytes | None) -> Predictions:
    if content is None:
        return load_predictions(task.path)
    digest = hashlib.sha256(content).hexdigest()
    path = Path(tempfile.gettempdir()) / f"anchorpoint-{digest[:32]}" / task.path.name
    if not path.is_file() or path.stat().st_size != len(content):
        with whole_file(path, private=True) as file:
            file.write(content)
    return load_predictions(path)


@dataclass
class _Family:
    """What has come back of one family."""

    task: Task
    cells: tuple[Cell | None, ...]
    tables: dict[Cell | None, tuple[pd.DataFrame, ...]] = field(default_factory=dict)
    reason: str | None = None

    @property
    def is_settled(self) -> bool:
        return self.reason is not None or len(self.tables) == len(self.cells)

    def take(self, cell: Cell | None, found: dict[str, Any]) -> bool:
        """Take one answer in and say whether the family is settled by it."""
        self.reason = found.get("reason")
        if self.reason is None:
            self.tables[cell] = found["tables"]
        return self.is_settled

    def write(self) -> str | None:
        """Leave the family's tables on disk, its rows last; return the reason if it cannot take part."""
        if self.reason is not None:
            return self.reason
        rows = [self.tables[cell][0] for cell in self.cells if cell is not None]
        return finish(self.task, rows, self.tables[None])


class _Campaign:
    """One study: what waits, what is out, and what has come back of each family."""

    def __init__(self, cluster: Cluster, cancel: Callable[[], bool] | None) -> None:
        self._ray, self._cluster, self._cancel = cluster.ray, cluster, cancel
        self._work = self._ray.remote(num_cpus=1, max_retries=_RETRIES)(run_cell)
        self._out: dict[Any, tuple[_Family, Cell | None]] = {}

    def run(self, todo: Sequence[Task]) -> Iterator[tuple[str, str | None]]:
        """Yield (family, reason or None) in the order they finish; unfinished ones are dropped when
        cancelled.
        """
        families = [_Family(task, (None, *cells_of(task.config))) for task in todo]
        waiting = deque((family, cell) for family in families for cell in family.cells)
        contents: dict[str, Any] = {}
        try:
            while waiting or self._out:
                if self._cancel is not None and self._cancel():
                    return
                while waiting and len(self._out) < _IN_FLIGHT * self._cluster.n_cores:
                    family, cell = waiting.popleft()
                    if not family.is_settled:
                        self._send(family, cell, contents)
                yield from self._receive()
        finally:
            for answer in self._out:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(answer, force=False)

    def _send(self, family: _Family, cell: Cell | None, contents: dict[str, Any]) -> None:
        task, content = family.task, None
        if not self._cluster.is_shared:
            if task.path.is_dir():
                raise UserError(
                    f"{task.path.name} is a folder, and not every node of the cluster sees it.",
                    "Put it into a folder that all nodes see, or give an .npz file.",
                    option="ray",
                )
            if task.digest not in contents:
                contents[task.digest] = self._ray.put(task.path.read_bytes())
            content = contents[task.digest]
        self._out[self._work.remote(task, cell, content)] = (family, cell)

    def _receive(self) -> Iterator[tuple[str, str | None]]:
        ready, _ = self._ray.wait(list(self._out), num_returns=1, timeout=_POLL) if self._out else ([], None)
        for answer in ready:
            family, cell = self._out.pop(answer)
            try:
                found = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                reason = (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]
                raise UserError(
                    f"the cluster lost {family.task.family} for good ({reason}). Finished families are kept:"
                    " run again."
                ) from None
            if not family.is_settled and family.take(cell, found):
                yield family.task.family, family.write()
