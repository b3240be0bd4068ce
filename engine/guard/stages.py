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


@dataclass(frozen=True)
class Child:
    """What a guarded function gets beside its arguments: the folder for files that it hands back."""

    folder: Path


def stage(name: str, *, patience: float = 1.0) -> None:
    """Say what begins now, as the middle of a sentence ("reading the graph"); the stage's clock starts anew.

    `patience` multiplies the time it may take, for work that is long in good files too.
    """
    for tell in _listener:
        tell({"stage": name, "patience": patience})


def progress(done: int, total: int) -> None:
    """Say how far the stage is; its clock starts anew."""
    for tell in _listener:
        tell({"done": done, "total": total})


def listen(tell: Tell) -> None:
    """Send every report of this process to `tell`."""
    _listener[:] = [tell]
