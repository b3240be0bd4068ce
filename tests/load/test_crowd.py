"""Twenty visitors at once: every page answers, nobody sees another's work, and who leaves leaves nothing in
memory.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from engine.target.label_log import read, replay
from tests.load.crowd import PAGES, all_at_once, one_after_another
from tests.load.server import Server, serving
from tests.load.visitor import Visitor

N = 20


@pytest.mark.slow
def test_twenty_at_once_each_in_a_session_of_their_own(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        visits = all_at_once(server, N, pages_each=1)
        assert len(PAGES) <= N  # between them they saw every page
        assert [visit.errors for visit in visits] == [()] * N
        assert len({visit.session for visit in visits}) == N
        assert [visit.names for visit in visits] == [frozenset([number]) for number in range(N)]
        _check_growth(server)
        _check_labels(server)


def _check_growth(server: Server) -> None:
    """A closed session held 3.4 MB for two minutes before it was let go at once."""
    sizes = one_after_another(server, 8)
    assert sizes[-1] - sizes[1] < 15


def _check_labels(server: Server) -> None:
    """Once the next image is on the screen, the label outlives a server that is killed."""
    with Visitor(server.port) as visitor:
        visitor.open()
        visitor.press("sample-digits-resnet")
        visitor.open("target")
        for label in range(3):
            visitor.press(f"label-{label}")
        os.kill(server.process.pid, signal.SIGKILL)
    book = replay(read(server.sessions / visitor.session / "labels.jsonl"))
    assert book.labels[-3:] == (0, 1, 2)
