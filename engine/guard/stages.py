"""The child's side of the conversation: name the stage that begins, report progress. Silent outside a child.

Knows how a stage is told. Knows nothing of what the stages do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SMALL = 100  # layers or operators

Tell = Callable[[dict[str, Any]], None]

_listener: list[Tell] = []  # one in a child, none elsewhere
_patience = 1.0  # of the stage that goes on


@dataclass(frozen=True)
class Child:
    """What a guarded function gets beside its arguments: the folder for files that it hands back."""

    folder: Path


def stage(name: str, *, patience: float = 1.0, goes_on: bool = False) -> None:
    """Say what begins now, as the middle of a sentence ("reading the graph"); the stage's clock starts anew,
    or `goes_on` from the stage before, so that both together have the time of the more patient one.

    `patience` multiplies the time it may take, for work that is long in good files too.
    """
    global _patience
    _patience = max(patience, _patience) if goes_on else patience
    for tell in _listener:
        tell({"stage": name, "patience": _patience, "goes_on": goes_on})


def patience_with(n_parts: int) -> float:
    """Return the patience with a network of so many layers or operators: one for a small network, which has
    no reason to take long, up to four for a large one.
    """
    return min(max(n_parts / _SMALL, 1.0), 4.0)


def progress(done: int, total: int) -> None:
    """Say how far the stage is; its clock starts anew."""
    for tell in _listener:
        tell({"done": done, "total": total})


def listen(tell: Tell) -> None:
    """Send every report of this process to `tell`."""
    _listener[:] = [tell]
