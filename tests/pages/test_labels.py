"""The Labels page: filters show what they say, a click corrects a label, and nothing is lost."""

from __future__ import annotations

import pytest

from pages.ui.parts.label_browser import rows_of
from pages.ui.session.labels import mark, reveal_labels, set_aside
from tests.pages.driving import go, open_app, session_of, text_of, with_sample

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def test_cold_page_says_what_it_needs() -> None:
    assert "needs predictions" in text_of(go(open_app(), "labels"))


def test_a_label_is_corrected_and_removed_from_its_card() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    reveal_labels(session, 0)
    mark(session, 5, 3)
    text = text_of(go(app, "labels"))
    assert len(app.image) == 1
    assert all(f"{model}: " in text for model in ("teacher", "pick"))
    assert "of the candidates agree with the teacher" in text
    app.selectbox(key="correct-5-3").set_value(7).run()
    assert session_of(app).book.labeled == {5: 7}
    assert session_of(app).book.entries[5].source == "corrected"
    app.button(key="unlabel-5").click().run()
    assert session_of(app).book.labeled == {}
    app.button(key="label-undo").click().run()
    assert session_of(app).book.labeled == {5: 7}


def test_filters_reach_the_page() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    set_aside(session, 3, "unsure")
    assert rows_of(session, "unsure", None)["row"].tolist() == [3]
    assert len(rows_of(session, "labeled", None)) == 25
    assert len(rows_of(session, "unlabeled", None)) == 95
    app.query_params["show"] = "unsure"
    text = text_of(go(app, "labels"))
    assert "1 image." in text
    of_three = rows_of(session, "labeled", 3)
    app.segmented_control(key="browse-which").set_value("labeled").run()
    app.selectbox(key="browse-class").set_value(3).run()
    keys = {box.key for box in app.selectbox}
    assert {f"correct-{row}-3" for row in of_three["row"]} == {
        k for k in keys if k and k.startswith("correct-")
    }


def test_images_on_which_people_differ_have_a_filter() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    shown = go(app, "labels").segmented_control(key="browse-which")
    assert "People differ" not in shown.options
    for name, label in (("Ann", 2), ("Bob", 3)):
        session.note(annotator=name)
        mark(session, 7, label)
    shown = go(app, "labels").segmented_control(key="browse-which")
    assert "People differ" in shown.options
    assert rows_of(session, "disputed", None)["row"].tolist() == [7]
    assert "Ann, Bob: 1 image labeled by more than one person, 0 of them alike" in text_of(app)
    app.query_params["show"] = "disputed"
    go(app, "labels").button(key="unsure-7").click().run()
    assert session.book.aside("unsure") == (7,)
    app.button(key="label-undo").click().run()
    assert session.book.labeled[7] == 3


def test_an_empty_filter_says_so() -> None:
    app = with_sample(open_app())
    reveal_labels(session_of(app), 0)
    assert "Nothing to show" in text_of(go(app, "labels"))


def test_how_labels_were_made_reaches_the_decision_and_its_brief() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    go(app, "labels")
    app.button_group(key="trust-normal").set_value("checked").run()
    assert not app.exception
    session = session_of(app)
    assert session.record.label_trust == "checked"
    assert session.decision.recommended.details["label_trust"] == "checked"
    assert rows_of(session, "suspected", None).empty  # no checked label is called wrong
