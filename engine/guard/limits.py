"""What a child process may use, and where a host changes it. Knows the environment; enforces nothing."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from engine.types import UserError

Kind = Literal["import", "images", "verify", "judge"]

_GB = 10**9
STARTING = 4.0  # patience with an interpreter or a framework that starts: it says nothing about the file
_ORDINARY = 50_000_000  # bytes of a model file; such a one is read, translated and run in 5 to 15 seconds
_MOST = 4.0
WAITING = 4.0  # wall clock over processor time of a stage: the rest is waiting for a busy machine or a disk


@dataclass(frozen=True)
class Limits:
    """Bounds of one child. `seconds` is the processor time of a stage, and a quarter of its wall clock; both
    start anew when the child names a stage or reports progress. `memory` counts what the child allocates, not
    files it maps or shared libraries.
    """

    kind: Kind = "import"
    memory: int = 3_500_000_000  # with the libraries that it maps and the process that waits for it: 4 GB
    seconds: float = 30.0
    output_bytes: int = 8 * _GB
    open_files: int = 512

    @property
    def setting(self) -> str:
        """The start of the environment variables that change these limits."""
        return f"ANCHORPOINT_{self.kind.upper()}"


_DEFAULTS = {
    "import": Limits(),
    "images": Limits(kind="images", memory=2 * _GB, seconds=10.0, output_bytes=_GB),  # of one image
    "verify": Limits(kind="verify", output_bytes=_GB),
    "judge": Limits(kind="judge", seconds=10.0, output_bytes=500 * _GB),  # of one batch of a few images
}


def limits_for(kind: Kind, *, memory: int | None = None, n_bytes: int = 0) -> Limits:
    """Return the limits of a kind of work: the defaults, or what ANCHORPOINT_KIND_MEMORY_GB and
    ANCHORPOINT_KIND_SECONDS say. `memory` replaces the default where an estimate is known;
    a model of `n_bytes` gets the time that its size asks for.

    Raises UserError if a setting is no positive number.
    """
    default = _DEFAULTS[kind]
    allowed = _setting(f"{default.setting}_MEMORY_GB", (memory or default.memory) / _GB) * _GB
    seconds = _setting(f"{default.setting}_SECONDS", default.seconds) * patience_with(n_bytes)
    return Limits(kind, round(allowed), seconds, default.output_bytes, default.open_files)


def patience_with(n_bytes: int) -> float:
    """Return how many times the seconds of a stage a model of `n_bytes` may take: once up to 50 MB, four
    times from 150 MB on. Layers that a file only declares do not count: they cost a stranger nothing.
    """
    return min(max(math.ceil(n_bytes / _ORDINARY), 1), _MOST)


def _setting(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(f"{name} is {text!r}; it must be a number above 0, e.g. {default:g}.")
    return value
