"""The shared page: the decision and nothing else, without a session, until the link is switched off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui.parts.share import address
from pages.ui.session.labels import mark
from pages.ui.workspace.sharing import key_of
from tests.pages.driving import APP, go, open_app, session_of, text_of, with_sample

Started = list[tuple[str, dict[str, Any]]]
pytestmark = pytest.mark.usefixtures("workspace", "sample_folder")


def open_link(key: str) -> AppTest:
    app = AppTest.from_file(str(APP), default_timeout=30)
    app.query_params["share"] = key
    app.run()
    assert not app.exception, [error.message for error in app.exception]
    return app


def shared(app: AppTest) -> str:
    """Share from the Choose page, by clicks; return the key."""
    go(app, "choose").button(key="share-on").click().run()
    return key_of(session_of(app).folder)


def test_shows_the_decision_and_opens_no_session(started: Started, workspace: Path) -> None:
    owner = with_sample(open_app())
    key = shared(owner)
    before = sorted(path.name for path in workspace.iterdir())
    visitor = open_link(key)
    text = text_of(visitor)
    pick = session_of(owner).decision.recommended.name
    assert pick in text
    assert "What could be wrong" in text
    assert "25 labels" in text
    assert "anchorpoint" not in visitor.session_state
    assert sorted(path.name for path in workspace.iterdir()) == before
    assert session_of(owner).folder.name not in text + str(visitor.query_params)
    assert not visitor.button, "nothing that changes state"


def test_shows_what_was_shared_until_it_is_shared_again(started: Started) -> None:
    owner = with_sample(open_app())
    key = shared(owner)
    session = session_of(owner)
    row = next(row for row in range(100) if row not in session.book.labeled)
    mark(session, row, 0)
    assert "25 labels" in text_of(open_link(key))
    go(owner, "choose").button(key="share-again").click().run()
    assert key_of(session.folder) == key
    assert "26 labels" in text_of(open_link(key))


def test_a_link_that_was_switched_off_shows_nothing(started: Started) -> None:
    owner = with_sample(open_app())
    key = shared(owner)
    owner.button(key="share-off").click().run()
    text = text_of(open_link(key))
    assert "Nothing is shared under this link" in text
    assert session_of(owner).decision.recommended.name not in text


def test_a_session_id_is_no_share_key(started: Started) -> None:
    owner = with_sample(open_app())
    shared(owner)
    assert "Nothing is shared" in text_of(open_link(session_of(owner).folder.name))


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("https://host/choose", "https://host/?share=k"),
        ("https://host/app/export/", "https://host/app/?share=k"),
        ("https://host/app", "https://host/app/?share=k"),
        ("http://localhost:8501/", "http://localhost:8501/?share=k"),
    ],
)
def test_the_link_leads_to_the_front_door(url: str, wanted: str) -> None:
    assert address(url, "k") == wanted
