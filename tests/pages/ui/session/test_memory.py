"""Memory: a result is kept until its inputs change, goes when the tab is closed, and others' give way."""

from __future__ import annotations

import gc
import os
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from engine.types import Predictions
from pages.ui.session.memory import Memory, make_room
from pages.ui.session.state import Session
from pages.ui.workspace.expiry import steady_now
from pages.ui.workspace.folder import RECORD, new_id, sweep
from pages.ui.workspace.hosting import hosting
from tests.pages.driving import go, open_app, session_of, with_sample

MB = 10**6


def test_a_result_is_computed_once_for_its_inputs() -> None:
    memory, calls = Memory(), []
    for key in (1, 1, 2):
        assert memory.keep("x", key, lambda key=key: calls.append(key) or key) == key
    assert calls == [1, 2]
    memory.clear()
    memory.keep("x", 2, lambda: calls.append(3))
    assert calls == [1, 2, 3]


def test_those_used_longest_ago_give_way(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(10 * MB, np.uint8))
    memories = [Memory() for _ in range(3)]
    for memory in memories:
        memory.keep("array", 0, lambda: np.zeros(MB, np.uint8))
        memory.keep("on disk", 0, lambda: np.load(tmp_path / "x.npy", mmap_mode="r"))
        make_room(memory, 10 * MB)
    assert [memory.n_bytes for memory in memories] == [MB] * 3
    make_room(memories[0], 2 * MB)
    assert [memory.n_bytes for memory in memories] == [MB, 0, MB]


@pytest.mark.usefixtures("workspace", "sample_folder", "started")
def test_predictions_count_and_a_page_makes_what_was_let_go_again() -> None:
    app = go(with_sample(open_app(), "pacs-sketch"), "choose")
    session = session_of(app)
    predictions = session.predictions
    assert isinstance(predictions, Predictions)
    session.let_go()
    assert session._memory.n_bytes == 0
    ref = weakref.ref(predictions)
    del predictions
    gc.collect()
    assert ref() is None or gc.get_referrers(session)[0] is not ref()
    go(app, "choose")
    assert session._memory.n_bytes > 0


def test_a_session_in_use_does_not_expire(workspace: Path) -> None:
    session = Session(workspace / new_id(), hosting())
    session.save()
    day = 86_400
    os.utime(session.folder / RECORD, (time.time() - 2 * day, time.time() - 2 * day))
    session.stay()  # labels are being given: the record itself is not written for days
    assert sweep(workspace, day) == []
    os.utime(session.folder / RECORD, (time.time() - 2 * day, time.time() - 2 * day))
    assert sweep(workspace, day) == [session.folder.name]


def test_a_clock_that_is_set_ahead_deletes_nobodys_work(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(workspace / new_id(), hosting())
    session.save()
    ahead = time.time() + 10 * 365 * 86_400
    monkeypatch.setattr(time, "time", lambda: ahead)
    assert sweep(workspace, hosting().expiry_seconds, steady_now()) == []
    assert session.folder.exists()
