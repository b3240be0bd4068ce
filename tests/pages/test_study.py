"""The Study page: offers families with a test part, runs in the background, shows findings, and computes
once.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd
import pytest

from engine.predictions.file import save_predictions
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.run import run_study
from engine.types import Predictions
from pages.ui.parts.page import PAGES
from pages.ui.parts.study_charts import page_chart
from pages.ui.show.glossary import GLOSSARY
from tests.pages.driving import go, open_app, session_of, text_of

Started = list[tuple[str, dict[str, Any]]]
pytestmark = pytest.mark.usefixtures("workspace", "sample_folder")


def test_cold_page_starts_a_study(started: Started, sample_folder: Path) -> None:
    app = go(open_app(), "study")
    next(button for button in app.button if button.label == "Run the study").click().run()
    kind, arguments = started[-1]
    assert kind == "study"
    assert sample_folder / "digits-resnet.npz" in map(Path, arguments["files"])
    assert arguments["budgets"] == [10, 25, 50, 100]


def test_the_glossary_is_one_click_away_on_every_page(started: Started) -> None:
    app = open_app()
    for page in PAGES:
        text = text_of(go(app, page))
        assert all(f"**{word}.**" in text for word in GLOSSARY), page


def test_a_chart_gives_its_title_to_the_page_and_calls_rules_by_title() -> None:
    data = pd.DataFrame({"rule": ["ce-combo", "val-ce"], "regret": [0.1, 0.2]})
    color = alt.Color("rule:N", scale=alt.Scale(domain=["ce-combo", "val-ce"]))
    chart = (
        alt.Chart(data)
        .mark_rule()
        .encode(x="regret:Q", color=color)
        .properties(title="Lowest: val-ce, of all")
    )
    title, spec = page_chart(chart)
    assert title == "Lowest: Direct validation, cross-entropy, of all"
    assert "title" not in spec
    assert spec["mark"]["type"] == "rule"
    assert spec["encoding"]["color"]["scale"]["domain"] == ["CE-combo", "Validation, loss"]
    assert [row["rule"] for row in next(iter(spec["datasets"].values()))] == ["CE-combo", "Validation, loss"]


def test_without_families_it_says_so(
    started: Started, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("engine.samples.FOLDER", tmp_path / "empty")
    assert "No family with a test part" in text_of(go(open_app(), "study"))


def test_shows_a_finished_study_and_computes_once(
    started: Started, sample_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app()
    config = StudyConfig(budgets=(10,), rules=("ce-combo", "val-ce", "distortion"), repetitions=2)
    run_study([sample_folder / "digits-resnet.npz"], session_of(app).folder / "study", config, workers=1)
    text = text_of(go(app, "study"))
    assert "1 family" in text
    assert "Studied: digits-resnet." in text
    assert "lower is better" in text
    assert "Lowest mean regret: " in text
    assert not re.search(r"\b(ce-combo|val-ce)\b", text)  # rules are called as on the other pages

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a rerun must not compute")

    monkeypatch.setattr("pages.ui.parts.study.make_tables", refuse)
    monkeypatch.setattr("pages.ui.parts.study.make_charts", refuse)
    monkeypatch.setattr("pages.ui.parts.study.load_study", refuse)
    app.run()
    assert not app.exception


def test_families_just_added_are_chosen_and_named(started: Started, family: Predictions) -> None:
    app = go(open_app(), "study")
    folder = session_of(app).folder / "study-files"
    folder.mkdir(parents=True)
    save_predictions(family, folder / "mine.npz")
    app.run()
    assert app.multiselect[0].value == ["mine"]
    save_predictions(family, folder / "other.npz")
    session = session_of(app)
    save_predictions(family, session.folder / "predictions.npz")
    session.note(origin="file", title="sorter.onnx")
    app.run()
    assert app.multiselect[0].value == ["mine", "other", "sorter.onnx (run here)"]
