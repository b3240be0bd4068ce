"""Predictions of files that have no float teacher: the pages say what stands in for it, draw every candidate,
and promise no file that they cannot write.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.predictions.file import make_predictions, save_predictions
from pages.ui.session.actions import open_predictions
from pages.ui.session.grounds import brief_now
from tests.families import random_arrays
from tests.pages.driving import go, open_app, session_of, text_of

pytestmark = pytest.mark.usefixtures("workspace", "started")
NAMES = [f"meter-v{index}" for index in range(8)]


@pytest.fixture
def app(tmp_path: Path) -> AppTest:
    teacher, candidates, labels = random_arrays(3, n_images=80, n_classes=3)
    made = make_predictions(
        teacher,
        candidates,
        labels=labels,
        names=NAMES,
        cost=np.linspace(0.5, 1, len(NAMES)),
        reference="consensus",
    )
    save_predictions(made, tmp_path / "meter.npz")
    app = open_app()
    with (tmp_path / "meter.npz").open("rb") as file:
        open_predictions(session_of(app), file, "meter.npz")
    return app


def test_what_stands_in_is_said_and_nothing_is_called_a_share_of_float(app: AppTest) -> None:
    for page in ("choose", "compare"):
        text = text_of(go(app, page))
        assert "There is no float teacher behind these predictions: the consensus of the candidates" in text
        assert "% of float" not in text
    brief = brief_now(session_of(app))
    assert (brief.teacher.name, brief.whole) == (
        "the consensus of the candidates, a stand-in",
        "the largest file",
    )
    table = app.dataframe[0].value.set_index("Measure")
    assert table["teacher"]["Memory ↓ (of the largest file)"] == "–"


def test_the_budget_is_a_share_of_the_largest_file(app: AppTest) -> None:
    go(app, "candidates").slider[0].set_value(60).run()
    text = text_of(app)
    assert "Within 60 % of the largest file" in text
    assert "Clip percentile" not in text  # these candidates have no such axes
    assert app.slider[0].label == "Budget, % of the largest file"
    assert "% of the largest file" in " ".join(brief_now(session_of(app)).limits.in_words("the largest file"))


@pytest.mark.parametrize("page", ["choose", "collapse"])
def test_candidates_of_unknown_bits_are_drawn(app: AppTest, page: str) -> None:
    go(app, page)
    spec = json.loads(app.get("vega_lite_chart")[0].proto.spec)
    colored = [layer["encoding"]["color"] for layer in spec["layer"] if "color" in layer["encoding"]]
    assert colored
    assert all(color["scale"]["domain"] == ["mixed or unknown bits"] for color in colored)


def test_files_that_were_only_judged_elsewhere_are_not_offered_here(app: AppTest) -> None:
    text = text_of(go(app, "export"))
    assert "which ship as they are" in text
    assert not app.file_uploader
    name = session_of(app).decision.recommended.name
    assert f"--teacher consensus --candidates-from FILES --candidate {name}" in app.code[0].value
