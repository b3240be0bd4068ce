"""The Candidates page: gated, counts what fits, and another grid forgets predictions but not labels."""

from __future__ import annotations

import pytest

from pages.ui.session.record import Step
from tests.pages.driving import give_teacher, go, open_app, session_of, text_of, with_sample
from tests.tiny_teacher import tiny_teacher

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def test_cold_page_says_what_it_needs() -> None:
    assert "needs a teacher" in text_of(go(open_app(), "candidates"))


def test_predictions_alone_are_enough_for_costs() -> None:
    app = go(with_sample(open_app(), "pacs-sketch"), "candidates")
    assert "72 of 72 candidates" in text_of(app)


def test_budget_counts_what_fits_and_is_kept() -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    go(app, "candidates")
    app.slider[0].set_value(30).run()
    session = session_of(app)
    n_fit = int((session.predictions.cost <= 0.3).sum())  # type: ignore[union-attr]
    assert f"{n_fit} of 72 candidates" in text_of(app)
    assert session_of(open_app(session.folder.name)).record.budget == 0.3


def test_says_what_a_file_takes_beside_the_codes() -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    text = text_of(go(app, "candidates"))
    assert "stores 3 bits as 4, 5 bits as 8 and 6 bits as 8." in text
    assert "In ONNX ↓ (%)" in app.dataframe[0].value
    app.slider[0].set_value(30).run()
    assert "as stored, " in text_of(app)


def test_a_grid_that_a_file_holds_as_it_is_needs_no_word() -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    session_of(app).change(keep=Step.LABELS, bits=(4, 8))
    assert "An ONNX file has integers" not in text_of(go(app, "candidates"))


def test_another_grid_keeps_labels_and_forgets_predictions() -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    go(app, "candidates")
    app.multiselect[0].set_value([4, 8])
    next(button for button in app.button if button.label == "Use this grid").click().run()
    session = session_of(app)
    assert len(session.recipes) == 24
    assert session.predictions is None
    assert len(session.rows) == 25
    next(button for button in app.button if button.label == "Back to the standard 72").click().run()
    assert session_of(app).predictions is not None


def test_an_empty_grid_is_an_error_in_a_line() -> None:
    app = with_sample(open_app())
    give_teacher(app, tiny_teacher(10))
    go(app, "candidates")
    app.multiselect[0].set_value([])
    next(button for button in app.button if button.label == "Use this grid").click().run()
    assert not app.exception
    assert "The grid has no bit width" in text_of(app)
    assert len(session_of(app).recipes) == 72
