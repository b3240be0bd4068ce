"""Where and how the app runs: a person's own machine, or a public demo with tighter limits. Knows the
environment, nothing of pages.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.target import Limits

_MB = 10**6
_DAY = 24 * 3600.0


@dataclass(frozen=True)
class Hosting:
    """What a visitor may do here. A demo turns off server paths and downloads, and accepts less."""

    is_demo: bool
    root: Path  # one folder per session lives below it
    expiry_seconds: float
    teacher_bytes: int
    predictions_bytes: int
    limits: Limits

    @property
    def allows_server_paths(self) -> bool:
        return not self.is_demo

    @property
    def allows_downloads(self) -> bool:
        return not self.is_demo


def hosting() -> Hosting:
    """Read the environment: ANCHORPOINT_DEMO=1 for a public demo, ANCHORPOINT_WORKSPACE for where sessions
    are kept.
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
            limits=limits,
        )
    return Hosting(
        is_demo=False,
        root=root,
        expiry_seconds=14 * _DAY,
        teacher_bytes=2_000 * _MB,
        predictions_bytes=2_000 * _MB,
        limits=Limits(),
    )
