"""Labels from a CSV: compared before they are taken in, and every label with its source, time and name."""

from __future__ import annotations

import pytest

from pages.ui.session.labels import labels_csv, mark, reveal_labels
from pages.ui.session.state import Session
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.tiny_teacher import tiny_teacher

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


@pytest.fixture
def session() -> Session:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    return session_of(app)


def test_a_csv_is_compared_before_it_is_taken(session: Session) -> None:
    reveal_labels(session, 0)
    mark(session, 5, 3)
    mark(session, 8, 1)
    app = go(open_app(session.folder.name), "target")
    data = b"row;label\n5;4\n8;1\n9;2\n77;zebra\n"
    app.file_uploader(key="labels-csv").upload("mine.csv", data, "text/csv").run()
    text = text_of(app)
    assert "1 label is new, 1 is the same as yours, 1 differs from yours; 1 line cannot be read" in text
    assert "mine.csv, line 5" in text
    app.button(key="merge-take").click().run()
    assert session_of(app).book.labeled == {5: 3, 8: 1, 9: 2}  # mine is kept unless I say otherwise
    assert session_of(app).book.entries[9].source == "csv"
    app.radio(key="merge-how").set_value("replace").run()
    app.button(key="merge-take").click().run()
    assert session_of(app).book.labeled == {5: 4, 8: 1, 9: 2}
    app.button(key="label-undo").click().run()
    assert session_of(app).book.labeled == {5: 3, 8: 1, 9: 2}


def test_who_labeled_and_when_is_in_the_download(session: Session) -> None:
    reveal_labels(session, 0)
    session.note(annotator="Ann")
    mark(session, 5, 3)
    header, line = labels_csv(session).splitlines()
    assert header == "row,label,class,file,source,time,by"
    assert line.startswith("5,3,")
    assert line.endswith(",Ann")
    assert ",typed,20" in line


def test_what_is_known_already_is_not_offered_again(session: Session) -> None:
    reveal_labels(session, 0)
    mark(session, 5, 3)
    mark(session, 8, 1)
    app = go(open_app(session.folder.name), "target")
    app.file_uploader(key="labels-csv").upload("mine.csv", b"row,label\n5,4\n8,1\n", "text/csv").run()
    app.radio(key="merge-how").set_value("take").run()
    app.button(key="merge-take").click().run()
    assert session_of(app).book.changes[-1].words == "1 label from mine.csv"  # as many as it changed
    assert "2 labels are the same as yours." in text_of(app)
    assert "merge-take" not in {button.key for button in app.button}
    app.button(key="label-undo").click().run()
    assert "1 label is the same as yours, 1 differs from yours." in text_of(app)
    assert session_of(app).book.labeled == {5: 3, 8: 1}


def test_classes_without_a_label_are_named_as_classes(session: Session) -> None:
    reveal_labels(session, 0)
    for label in range(9):
        mark(session, label, label)
    assert "No label yet for class " in text_of(go(open_app(session.folder.name), "target"))
    mark(session, 8, 7)
    assert "No label yet for classes " in text_of(go(open_app(session.folder.name), "target"))
