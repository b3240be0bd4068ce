"""The Compare page: its numbers are the engine's, its headline is true, and its gallery takes labels."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from engine.diagnose.comparison import Interval, Quality, class_effects, labeled_rows, quality
from engine.predictions.file import save_predictions
from pages.ui.parts.compare import headline_of
from pages.ui.session.labels import reveal_labels
from pages.ui.show.words import share, size
from tests.pages.driving import go, open_app, session_of, text_of, with_sample

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def of(accuracy: float, low: float, high: float) -> Quality:
    return Quality(
        accuracy=Interval(value=accuracy, low=low, high=high), loss=Interval(value=1, low=1, high=1), ece=0.1
    )


def test_cold_page_says_what_it_needs() -> None:
    assert "needs predictions" in text_of(go(open_app(), "compare"))


def test_the_table_states_accuracy_with_its_interval() -> None:
    app = go(with_sample(open_app()), "compare")
    session = session_of(app)
    name = session.decision.recommended.name
    index = session.require_predictions().names.index(name)
    assert session.sample is not None
    probs = labeled_rows(session.require_predictions().candidates[index], session.sample)
    accuracy = quality(probs, session.sample.labels).accuracy
    shown = app.dataframe[0].value.set_index("Measure")[name]["Right on your labels ↑ (95 %)"]
    assert shown.startswith(f"{100 * accuracy.value:.3g} %")
    assert shown.endswith(f"{100 * accuracy.high:.3g} %)")


def test_sizes_of_files_and_times_stand_beside_them_where_known() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    assert "File ↓" not in set(go(app, "compare").dataframe[0].value["Measure"])
    predictions = session.require_predictions()
    n = predictions.n_candidates
    timed = replace(predictions, bytes=np.arange(n) + 5000.0, latency=np.linspace(0.5, 1.5, n))
    save_predictions(timed, session.folder / "predictions.npz")
    shown = go(app, "compare").dataframe[0].value.set_index("Measure")
    name = list(shown.columns)[1]
    index = predictions.names.index(name)
    assert shown[name]["File ↓"] == size(5000.0 + index)
    assert shown[name]["Time an image ↓ (of the teacher's)"] == share(float(timed.latency[index]))  # type: ignore[index]


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (
            of(0.9, 0.8, 0.95),
            of(0.3, 0.2, 0.4),
            "A is right more often than B: their 95 % intervals do not meet.",
        ),
        (
            of(0.3, 0.2, 0.4),
            of(0.9, 0.8, 0.95),
            "B is right more often than A: their 95 % intervals do not meet.",
        ),
        (of(0.6, 0.4, 0.8), of(0.5, 0.3, 0.7), "A is ahead on your labels; the 95 % intervals overlap."),
        (of(0.5, 0.3, 0.7), of(0.5, 0.3, 0.7), "Both are right equally often on your labels."),
        (None, None, "Without labels only their answers can be compared."),
    ],
)
def test_the_headline_says_what_the_numbers_say(a: Quality | None, b: Quality | None, words: str) -> None:
    assert headline_of({"A": a, "B": b}, "A", "B") == words


def test_a_label_given_in_the_gallery_counts() -> None:
    app = with_sample(open_app())
    session = session_of(app)
    reveal_labels(session, 0)
    go(app, "compare")
    box = next(box for box in app.selectbox if box.key and box.key.startswith("gallery-label-"))
    row = int(box.key.split("-")[2])
    box.set_value(4).run()
    assert session_of(app).book.labeled == {row: 4}
    assert not app.exception


def test_every_part_of_a_comparison_is_there() -> None:
    app = go(with_sample(open_app()), "compare")
    session = session_of(app)
    text, tables = text_of(app), [frame.value for frame in app.dataframe]
    assert "Calibration error ↓ (ECE)" in set(tables[0]["Measure"])
    name = session.decision.recommended.name
    predictions, sample = session.require_predictions(), session.sample
    assert sample is not None
    after = labeled_rows(predictions.candidates[predictions.names.index(name)], sample)
    effects = class_effects(labeled_rows(predictions.teacher, sample), after, sample.labels, 10)
    shown = next(table for table in tables if "Change (points, 95 %)" in table)
    assert list(shown["Class"]) == [str(k) for k in effects["class"]]  # the worst loss first
    assert any({"It is", "Answered"} <= set(table) for table in tables)
    assert "Mistakes it makes more often" in text
    assert len(app.image) == 12
    models = ("teacher", name, session.decision.choices["distortion"].name)
    assert all(text.count(f"{model}: **") == 12 for model in models)  # each picture with all three answers


def test_the_images_that_differ_are_counted_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pages.ui.parts.compare._GALLERY", 5)
    assert "The 5 images with the most at stake: how far" in text_of(go(with_sample(open_app()), "compare"))
    monkeypatch.setattr("pages.ui.parts.compare._GALLERY", 1000)
    assert re.search(
        r"\d+ images, the most at stake first: how far", text_of(go(with_sample(open_app()), "compare"))
    )


def test_one_of_the_two_can_be_taken() -> None:
    app = go(with_sample(open_app()), "compare")
    app.button(key="compare-use-b").click().run()
    assert session_of(app).record.chosen_how == "own"
    assert session_of(app).record.chosen
