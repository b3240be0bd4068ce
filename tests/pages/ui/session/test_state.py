"""The Session: survives refresh and restart, keeps visitors apart, forgets exactly what a change invalidates,
and expires.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.session.record import Record, Step
from pages.ui.session.state import Session
from pages.ui.workspace.folder import is_id, is_locked, locked, new_id, sweep, write_bytes
from pages.ui.workspace.hosting import hosting
from pages.ui.workspace.projects import projects
from tests.pages.driving import go, open_app, session_of, text_of, with_sample

pytestmark = pytest.mark.usefixtures("sample_folder", "started")


def filled(workspace: Path) -> Session:
    """A session with something at every step, on disk and in the record."""
    session = Session(workspace / new_id(), hosting())
    session.restart(
        origin="file",
        title="mine",
        budget=0.3,
        target="/images",
        chosen="b8-tensor-q100",
        is_live=True,
    )
    for name in (
        "teacher.onnx",
        "outline.json",
        "checks.json",
        "labels.jsonl",
        "predictions.npz",
        "bundle.zip",
        "store/part.npy",
        "export/model.onnx",
    ):
        write_bytes(session.folder / name, b"x")
    return session


@pytest.mark.parametrize(
    ("keep", "gone", "kept"),
    [
        (
            Step.TEACHER,
            {"checks.json", "labels.jsonl", "predictions.npz", "bundle.zip", "store", "export"},
            {"teacher.onnx", "outline.json"},
        ),
        (
            Step.LABELS,
            {"predictions.npz", "bundle.zip", "export"},
            {"teacher.onnx", "checks.json", "labels.jsonl", "store"},
        ),
        (Step.RUN, {"bundle.zip", "export"}, {"teacher.onnx", "checks.json", "predictions.npz", "store"}),
        (Step.CHOICE, {"bundle.zip", "export"}, {"predictions.npz"}),
    ],
)
def test_a_change_forgets_everything_after_it(
    workspace: Path, keep: Step, gone: set[str], kept: set[str]
) -> None:
    session = filled(workspace)
    session.change(keep=keep)
    left = {path.name for path in session.folder.iterdir()}
    assert not gone & left
    assert kept <= left
    record = Session(session.folder, hosting()).record
    assert record == session.record
    assert bool(record.chosen) == (keep >= Step.CHOICE)
    assert (record.budget == 0.3) == (keep >= Step.CANDIDATES)


def test_restart_begins_with_nothing_and_keeps_what_was_there(workspace: Path) -> None:
    session = filled(workspace)
    session.restart()
    assert session.record == Record()
    assert {path.name for path in session.folder.iterdir()} == {"session.json", "projects"}
    (kept,) = projects(session.folder)
    assert kept.chosen == "b8-tensor-q100"


def test_refresh_and_server_restart_find_the_session_again(workspace: Path) -> None:
    app = go(with_sample(open_app()), "choose")
    app.button(key="use-recommended").click().run()
    session = session_of(app)
    again = open_app(session.folder.name)  # a new AppTest shares no memory with the first
    assert session_of(again) is not session
    assert session_of(again).record == session.record
    assert session.record.chosen in text_of(go(again, "choose"))


def test_two_visitors_do_not_see_each_other(workspace: Path) -> None:
    first, second = with_sample(open_app()), open_app()
    assert session_of(first).folder != session_of(second).folder
    assert session_of(second).record.origin == ""


@pytest.mark.parametrize("strange", ["../../etc", "a" * 22, "%2e%2e", "x" * 500])
def test_unknown_or_strange_addresses_get_a_fresh_session(workspace: Path, strange: str) -> None:
    app = open_app(strange)
    assert not app.exception
    assert session_of(app).folder.name != strange
    assert session_of(app).folder.parent == workspace.resolve()


def test_ids_are_long_and_random() -> None:
    ids = {new_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(is_id(value) for value in ids)


def test_sidebar_says_how_far_the_visitor_has_come(workspace: Path) -> None:
    session = filled(workspace)
    for name in ("outline.json", "predictions.npz"):
        (session.folder / name).unlink()  # they hold no real teacher
    side = open_app(session.folder.name).sidebar
    assert [text.value for text in side.text] == ["mine", "0 images", "b8-tensor-q100"]
    assert [button.label for button in side.button] == ["Start over"]


def test_start_over_deletes_the_folder(workspace: Path) -> None:
    def start_over() -> None:
        from pages.ui.session.state import current_session, reset_session

        current_session()
        reset_session()

    session = filled(workspace)
    app = AppTest.from_function(start_over)
    app.query_params["session"] = session.folder.name
    app.run()
    assert not app.exception
    assert not session.folder.exists()
    assert session_of(open_app()).record == Record()


def test_another_tab_sees_what_the_first_did(workspace: Path) -> None:
    first = with_sample(open_app())
    second = open_app(session_of(first).folder.name)
    session_of(first).choose("b8-tensor-q100", "own")
    second.run()
    assert session_of(second).record.chosen == "b8-tensor-q100"


def test_old_sessions_expire_unless_a_job_runs(workspace: Path) -> None:
    old, busy, fresh = (filled(workspace) for _ in range(3))
    past = time.time() - 1000
    for session in (old, busy):
        os.utime(session.folder / "session.json", (past, past))
    with locked(busy.folder / "jobs" / "predict.lock"):
        assert is_locked(busy.folder / "jobs" / "predict.lock")
        assert sweep(workspace, 500) == [old.folder.name]
    assert busy.folder.exists()
    assert fresh.folder.exists()


def test_records_of_other_versions_still_open() -> None:
    assert Record.from_json({"title": "mine", "bits": [1], "unknown": 3}) == Record(title="mine", bits=(1,))
