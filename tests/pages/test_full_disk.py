"""A label is on the disk, synced, before the next image is shown; where that fails, the page says so and
shows the same image.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from pages.ui.parts import labeling
from pages.ui.workspace.folder import RECORD
from tests.pages.driving import go, open_app, session_of, text_of, with_sample


@pytest.fixture
def shown(
    workspace: Path, sample_folder: Path, started: Any, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, Any]]:
    """What happens, in order: a sync, or an image on the page."""
    events: list[tuple[str, Any]] = []
    sync, picture = os.fsync, labeling.thumbnail

    def noted_sync(handle: int) -> None:
        sync(handle)
        events.append(("sync", None))

    def noted_picture(images: Any, index: int, side: int = 96) -> Any:
        events.append(("image", index))
        return picture(images, index, side)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(labeling, "thumbnail", noted_picture)
    return events


def test_a_label_is_synced_before_the_next_image(shown: list[tuple[str, Any]]) -> None:
    app = go(with_sample(open_app()), "target")
    first = shown[-1]
    shown.clear()
    app.button(key="label-3").click().run()
    kinds = [kind for kind, _ in shown]
    assert kinds.index("sync") < kinds.index("image")
    assert shown[-1] != first


def test_a_label_that_cannot_be_saved_is_said_and_not_counted(
    shown: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = go(with_sample(open_app()), "target")
    first, n = shown[-1], len(session_of(app).rows)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    app.button(key="label-3").click().run()
    assert not app.exception
    assert "could not be saved (No space left on device)" in text_of(app)
    assert len(session_of(app).rows) == n
    assert shown[-1] == first
    monkeypatch.undo()


@pytest.mark.usefixtures("workspace", "sample_folder", "started")
def test_a_damaged_session_is_said_and_left_as_it_is() -> None:
    app = with_sample(open_app())
    record = session_of(app).folder / RECORD
    record.write_bytes(record.read_bytes()[:20])
    again = open_app(record.parent.name)
    assert not again.exception
    assert "session.json of this session is damaged" in text_of(again)
    assert len(record.read_bytes()) == 20
