"""The child's side of the conversation: name the stage that begins, report progress. Silent outside a child.

Knows how a stage is told. Knows nothing of what the stages do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Tell = Callable[[dict[str, Any]], None]

_listener: list[Tell] = []  # one in a child, none elsewhere
_patience = 1.0  # of the stage that goes on


@dataclass(frozen=True)
class Child:
    """What a guarded function gets beside its arguments: the folder for files that it hands back."""

    folder: Path


def stage(name: str, *, patience: float | None = None, goes_on: bool = False) -> None:
    """Say what begins now, as the middle of a sentence ("reading the graph"); the stage's clock starts anew,
    or `goes_on` from the stage before, so that both together have the time of the more patient one.

    `patience` multiplies the time it may take: more for work that is long in good files too, less for work
    that never is. Not given, it is one, or that of the stage before.
    """
    global _patience
    if goes_on:
        _patience = max(patience or 0.0, _patience)
    else:
        _patience = 1.0 if patience is None else patience
    for tell in _listener:
        tell({"stage": name, "patience": _patience, "goes_on": goes_on})


def progress(done: int, total: int) -> None:
    """Say how far the stage is; its clock starts anew."""
    for tell in _listener:
        tell({"done": done, "total": total})


def listen(tell: Tell) -> None:
    """Send every report of this process to `tell`."""
    _listener[:] = [tell]
