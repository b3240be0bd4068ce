"""The card of the Choose page and the advice beside it: what it says first, and where it leads."""

from __future__ import annotations

from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from engine.recommend.suspects import Suspect
from pages.ui.session.labels import reveal_labels
from pages.ui.show.words import share
from tests.pages.driving import go, labels_of, links, open_app, session_of, text_of, with_sample

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def card(app: AppTest) -> str:
    """What the page says from the recommendation on."""
    said = text_of(app)
    return said[said.index("Right on **") :]


def test_accuracy_of_pick_and_teacher_comes_first_with_intervals() -> None:
    app = go(with_sample(open_app()), "choose")
    session = session_of(app)
    pick, teacher = session.quality(session.decision.recommended.index), session.quality(None)
    assert pick is not None
    assert teacher is not None
    for found in (pick.accuracy, teacher.accuracy):
        interval = f"{share(found.value)} ({100 * found.low:.0f} to {100 * found.high:.0f} %)"
        assert interval in card(app)
    assert card(app).index("Loss **") < card(app).index("picks it with 25 labels")
    reveal_labels(session, 0)
    assert "Right on **" not in text_of(go(app, "choose"))


def test_what_is_only_the_best_so_far_leads_to_more_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.decide.headline._AN_EVEN_CHANCE", 1.1)
    app = go(with_sample(open_app()), "choose")
    assert app.subheader[0].value.startswith("Best so far:")
    assert links(app)["Label more images"] == ("target", "")
    monkeypatch.setattr("engine.decide.headline._AN_EVEN_CHANCE", -1.0)
    app = go(with_sample(open_app()), "choose")
    assert app.subheader[0].value.startswith("Deploy ")
    assert "Label more images" not in links(app)


def test_labels_to_check_are_shown_and_lead_to_their_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    app = with_sample(open_app())
    row = session_of(app).rows[4]
    found = (Suspect(row=row, label=3, likely=5, probability=0.99, pick_without=None),)

    def suspects(*_: Any, **__: Any) -> tuple[Suspect, ...]:
        return found

    monkeypatch.setattr("pages.ui.parts.label_advice.labels_to_check", suspects)
    go(app, "choose")
    assert f"row {row} is labeled **3**; the evidence says 5." in text_of(app)
    assert len(app.image) == 1
    assert links(app)["Look at them and correct them"] == ("labels", "show=suspected")
    app.query_params["show"] = "suspected"
    go(app, "labels")
    assert "1 image." in text_of(app)
    assert f"correct-{row}-{session_of(app).book.labeled[row]}" in {box.key for box in app.selectbox}


@pytest.mark.parametrize("page", ["target", "labels"])
def test_labels_can_be_downloaded_wherever_they_are_given(page: str) -> None:
    app = with_sample(open_app())
    assert "Download labels" in labels_of(go(app, page), "download_button")
    reveal_labels(session_of(app), 0)
    assert "Download labels" not in labels_of(go(app, page), "download_button")
