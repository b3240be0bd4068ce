"""The Projects page and the question before starting over: nothing is lost by a careless click."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.session.actions import open_sample, use_sample_images
from pages.ui.session.labels import mark
from pages.ui.workspace.project_file import pack
from pages.ui.workspace.projects import KEPT, PROJECTS, keep_copy, projects
from tests.pages.driving import go, labels_of, open_app, session_of, text_of, with_sample

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def test_loading_another_teacher_keeps_typed_labels_as_a_project() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    mark(session, 3, 1)
    before = session.book.labeled
    open_sample(session, "pacs-sketch")
    assert session.book.labeled != before
    assert [project.name for project in projects(session.folder)] == ["Digits: ResNet (PyTorch)"]
    go(app, "projects")
    app.button(key=f"open-{projects(session.folder)[0].id}").click().run()
    assert not app.exception
    assert session_of(app).book.labeled == before
    assert session_of(app).record.sample == "digits-resnet"


def test_a_sample_nobody_touched_is_not_worth_a_project() -> None:
    app = with_sample(open_app())
    open_sample(session_of(app), "pacs-sketch")
    assert projects(session_of(app).folder) == ()


def asking() -> None:
    from pages.ui.parts.projects import ask_to_start_over
    from pages.ui.session.state import current_session

    ask_to_start_over(current_session())


def test_start_over_asks_and_says_what_there_is() -> None:
    session = session_of(with_sample(open_app()))
    mark(session, 3, 1)
    app = AppTest.from_function(asking)
    app.query_params["session"] = session.folder.name
    text = text_of(app.run())
    assert f"{len(session.rows)} labels" in text
    assert "kept under Projects" in text
    assert session_of(app).record.origin == "sample"  # nothing happened yet
    app.button(key="start-over-sure").click().run()
    assert session_of(app).record.origin == ""
    assert len(projects(session.folder)) == 1


def test_the_button_of_the_sidebar_asks_before_anything_happens() -> None:
    session = session_of(with_sample(open_app()))
    mark(session, 3, 1)
    app = open_app(session.folder.name)
    app.sidebar.button(key="start-over").click().run()
    assert not app.exception
    assert session_of(app).record.origin == "sample"
    assert projects(session.folder) == ()


def loading() -> None:
    from pages.ui.parts.projects import ask_to_load
    from pages.ui.session.actions import open_predictions_folder, open_sample
    from pages.ui.session.state import current_session

    session = current_session()
    if session.record.title.startswith("Digits"):
        ask_to_load(session, lambda: open_sample(session, "pacs-sketch"))
    else:
        ask_to_load(session, lambda: open_predictions_folder(session, "/nowhere/at/all"))


def test_loading_over_work_asks_first_and_names_what_goes() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    mark(session, 3, 1)
    for _ in range(KEPT):
        keep_copy(session.folder)
    before = session.book.labeled
    app = app.button(key="sample-pacs-sketch").click().run()  # in “Load another teacher”
    assert session_of(app).book.labeled == before  # nothing happened yet
    assert "Open now" in text_of(app)
    dialog = AppTest.from_function(loading)
    dialog.query_params["session"] = session.folder.name
    text = text_of(dialog.run())
    assert f"{len(before)} labels" in text
    assert "The oldest one, Digits: ResNet (PyTorch), is deleted then" in text
    dialog.button(key="load-sure").click().run()
    assert session_of(dialog).record.sample == "pacs-sketch"
    assert len(projects(session.folder)) == KEPT
    dialog.button(key="load-sure").click().run()
    assert "is not there" in session_of(dialog).complaint


def test_projects_can_be_renamed_and_deleted_after_a_question() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    mark(session, 3, 1)
    session.put_away()
    go(app, "projects")
    project = projects(session.folder)[0]
    app.text_input(key=f"name-{project.id}").set_value("clinic").run()
    app.button(key=f"rename-{project.id}").click().run()
    assert "clinic" in text_of(app)
    app.button(key=f"delete-{project.id}").click().run()
    assert len(projects(session.folder)) == 1
    app.button(key="delete-sure").click().run()
    assert projects(session.folder) == ()


def test_a_project_is_duplicated_downloaded_and_opened_from_its_file(tmp_path: Path) -> None:
    app = with_sample(open_app())
    session = session_of(app)
    mark(session, 3, 1)
    labeled = session.book.labeled
    assert labels_of(go(app, "projects"), "download_button") == ["Download"]
    session.put_away()
    (project,) = projects(session.folder)
    app.run()
    app.button(key=f"copy-{project.id}").click().run()
    assert {found.name for found in projects(session.folder)} == {project.name, f"{project.name} (copy)"}
    assert labels_of(app, "download_button") == ["Download", "Download"]
    packed = pack(session.folder / PROJECTS / project.id, tmp_path / "project.zip").read_bytes()
    other = go(open_app(), "projects")  # somebody else, with nothing open
    other.file_uploader(key="project-file").upload("project.zip", packed, "application/zip").run()
    next(button for button in other.button if button.label == "Add this project").click().run()
    (added,) = projects(session_of(other).folder)
    other.button(key=f"open-{added.id}").click().run()
    assert session_of(other).book.labeled == labeled


def test_a_wrong_project_file_is_answered_in_a_sentence() -> None:
    app = go(open_app(), "projects")
    app.file_uploader(key="project-file").upload(
        "x.zip", BytesIO(b"no zip").getvalue(), "application/zip"
    ).run()
    next(button for button in app.button if button.label == "Add this project").click().run()
    assert "cannot be read" in text_of(app)


def test_an_unknown_address_says_so() -> None:
    app = open_app("A" * 22)
    assert "is not here" in text_of(app)
    assert "is not here" not in text_of(open_app())


def test_other_images_keep_a_copy_of_the_labels_they_had() -> None:
    session = session_of(with_sample(open_app()))
    mark(session, 3, 1)
    before = session.book.labeled
    use_sample_images(session)
    assert session.rows == ()
    (kept,) = projects(session.folder)
    session.take_up(kept.id)
    assert session.book.labeled == before
