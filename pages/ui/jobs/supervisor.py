"""Watches a running job from a thread beside it: lets the next visitor in when its turn is over, and ends it
when it has taken more time or room than the host allows.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from engine.types import UserError
from pages.ui.jobs.turns import TURN_SECONDS, Turn
from pages.ui.jobs.worker import Desk
from pages.ui.show.words import duration
from pages.ui.workspace.hosting import Hosting, hosting
from pages.ui.workspace.quota import check_room

_LOOK_SECONDS = 1.0


@contextmanager
def supervised(desk: Desk, turn: Turn) -> Iterator[None]:
    """Watch the job while the block runs."""
    is_over = threading.Event()
    thread = threading.Thread(target=_watch, args=(desk, turn, hosting(), is_over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()  # it may be giving the turn away


def _watch(desk: Desk, turn: Turn, host: Hosting, is_over: threading.Event) -> None:
    started, is_aside = time.monotonic(), False
    while not is_over.wait(_LOOK_SECONDS):
        taken = time.monotonic() - started
        if not is_aside and taken > TURN_SECONDS:
            is_aside = turn.step_aside()
        if problem := _problem(desk, host, taken):
            desk.finish("interrupted", problem)
            os.killpg(os.getpid(), signal.SIGKILL)  # with everything it started


def _problem(desk: Desk, host: Hosting, taken: float) -> str:
    """Why the job must end now, or ""."""
    if host.job_seconds is not None and taken > host.job_seconds:
        return f"it took longer than {duration(host.job_seconds)}, the most a job may take here."
    try:
        check_room(desk.folder, host)
    except UserError as error:
        return str(error)
    return ""
