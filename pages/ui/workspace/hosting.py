"""Where and how the app runs: a person's own machine, or a public demo with tighter limits. Knows the
environment, nothing of pages.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from engine.files.npz import MAX_UNPACKED_BYTES
from engine.target import Limits
from engine.types import UserError

_MB = 10**6
_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Hosting:
    """What a visitor may do here. A demo turns off server paths and downloads, and accepts less."""

    is_demo: bool
    root: Path  # one folder per session lives below it
    expiry_seconds: float
    teacher_bytes: int
    predictions_bytes: int  # of an uploaded file
    unpacked_bytes: int  # of its arrays: they may have to be held in memory
    limits: Limits
    visitor_bytes: int | None = None  # on disk, projects included; None: as much as there is
    total_bytes: int | None = None  # of all visitors together
    job_seconds: float | None = None  # a job may take once its turn has come; None: as long as it takes
    held_bytes: int = 2_000 * _MB  # of predictions that the server keeps in memory for all open pages

    @property
    def allows_server_paths(self) -> bool:
        return not self.is_demo

    @property
    def allows_downloads(self) -> bool:
        return not self.is_demo


def hosting() -> Hosting:
    """Read the environment: ANCHORPOINT_DEMO=1 for a public demo, ANCHORPOINT_WORKSPACE for where sessions
    are kept, and the limits of a server. Raises UserError if one of these is no positive number.
    """
    is_demo = os.environ.get("ANCHORPOINT_DEMO", "") not in ("", "0")
    root = Path(os.environ.get("ANCHORPOINT_WORKSPACE", ".anchorpoint")).resolve()
    if is_demo:
        limits = Limits(files=2_000, file_bytes=8 * _MB, pixels=20_000_000, total_bytes=200 * _MB)
        return Hosting(
            is_demo=True,
            root=root,
            expiry_seconds=_DAY,
            teacher_bytes=120 * _MB,
            predictions_bytes=200 * _MB,
            unpacked_bytes=400 * _MB,
            limits=limits,
            visitor_bytes=_bytes("ANCHORPOINT_VISITOR_GB", 1.0),
            total_bytes=_bytes("ANCHORPOINT_TOTAL_GB", 20.0),
            job_seconds=_number("ANCHORPOINT_JOB_SECONDS", 900.0),
            held_bytes=800 * _MB,
        )
    return Hosting(
        is_demo=False,
        root=root,
        expiry_seconds=14 * _DAY,
        teacher_bytes=2_000 * _MB,
        predictions_bytes=2_000 * _MB,
        unpacked_bytes=MAX_UNPACKED_BYTES,
        limits=Limits(),
        visitor_bytes=_bytes("ANCHORPOINT_VISITOR_GB", None),
        total_bytes=_bytes("ANCHORPOINT_TOTAL_GB", None),
        job_seconds=_number("ANCHORPOINT_JOB_SECONDS", None),
    )


def _bytes(name: str, default: float | None) -> int | None:
    value = _number(name, default)
    return None if value is None else round(value * 1e9)


def _number(name: str, default: float | None) -> float | None:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise UserError(f"{name} is {text!r}; it must be a number above 0.")
    return value
