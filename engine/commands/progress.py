"""A progress bar on stderr: one redrawn line on a terminal; elsewhere nothing for work of less than a minute,
else the estimate and a line every tenth.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from engine.predictions.runner import ProgressReport

_WIDTH = 30
_QUIET = 60.0  # seconds of work; a refusal within them is the only line that a program reads
_GUESS = 3.0  # seconds before which nothing is known about the rest


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


def _is_brief(report: ProgressReport, spent: float, quiet: float) -> bool:
    return spent < min(_GUESS, quiet) or spent + (report.seconds_left or 0.0) < quiet


def progress_bar(stream: TextIO | None = None, *, quiet: float = _QUIET) -> Callable[[ProgressReport], None]:
    """Return an on_progress function that draws to `stream` (stderr by default), elsewhere than on a terminal
    only for work that takes more than `quiet` seconds in all, as soon as that shows.
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
        elif _is_brief(report, time.monotonic() - started, quiet):
            return
        elif step > last.get(report.stage, -1):  # the first line is the estimate
            out.write(describe(report) + "\n")
        last[report.stage] = step
        out.flush()

    return draw
