"""A progress bar on stderr: one redrawn line on a terminal; elsewhere nothing for work of moments, then the
estimate and a line every tenth.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from engine.predictions.runner import ProgressReport

_WIDTH = 30
_QUIET = 3.0  # seconds; a refusal within them is the only line that a program reads


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def describe(report: ProgressReport) -> str:
    """Return a report in words: stage, share, and where images are counted how many a second, time left."""
    share = f"{report.stage}: {report.done / max(report.total, 1):4.0%}"
    if not report.images_per_second and report.seconds_left is None:
        return share
    return f"{share}, {report.images_per_second:,.0f} images/s, {_duration(report.seconds_left)} left"


def progress_bar(stream: TextIO | None = None, *, quiet: float = _QUIET) -> Callable[[ProgressReport], None]:
    """Return an on_progress function that draws to `stream` (stderr by default), elsewhere than on a terminal
    only after `quiet` seconds.
    """
    out, started = stream or sys.stderr, time.monotonic()
    last: dict[str, int] = {}

    def draw(report: ProgressReport) -> None:
        steps = _WIDTH if out.isatty() else 10
        step = steps * report.done // max(report.total, 1)
        if out.isatty():
            bar = "#" * step + "-" * (_WIDTH - step)
            end = "\n" if report.done >= report.total else ""
            out.write(f"\r[{bar}] {describe(report)}   {end}")
        elif time.monotonic() - started < quiet:
            return
        elif step > last.get(report.stage, -1):  # the first line is the estimate
            out.write(describe(report) + "\n")
        last[report.stage] = step
        out.flush()

    return draw
