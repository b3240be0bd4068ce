"""What a child process may use, and where a host changes it. Knows the environment; enforces nothing."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from engine.types import UserError

Kind = Literal["import", "images", "verify", "judge"]

_GB = 10**9
STARTING = 4.0  # patience with an interpreter that starts, which says nothing about the file
WAITING = 4.0  # wall clock over processor time of a stage: the rest is waiting for a busy machine or a disk


@dataclass(frozen=True)
class Limits:
    """Bounds of one child. `seconds` is the processor time of a stage, and a quarter of its wall clock; both
    start anew when the child names a stage or reports progress. `memory` counts what the child allocates, not
    files it maps or shared libraries.
    """

    kind: Kind = "import"
    memory: int = 4 * _GB
    seconds: float = 45.0
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
    "judge": Limits(kind="judge", output_bytes=500 * _GB),  # seconds of one batch
}


def limits_for(kind: Kind, *, memory: int | None = None) -> Limits:
    """Return the limits of a kind of work: the defaults, or what ANCHORPOINT_KIND_MEMORY_GB and
    ANCHORPOINT_KIND_SECONDS say. `memory` replaces the default where an estimate is known.

    Raises UserError if a setting is no positive number.
    """
    default = _DEFAULTS[kind]
    n_bytes = _setting(f"{default.setting}_MEMORY_GB", (memory or default.memory) / _GB) * _GB
    seconds = _setting(f"{default.setting}_SECONDS", default.seconds)
    return Limits(kind, round(n_bytes), seconds, default.output_bytes, default.open_files)


def _setting(name: str, default: float) -> float:
    text = os.environ.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(f"{name} is {text!r}; it must be a number above 0, e.g. {default:g}.")
    return value
