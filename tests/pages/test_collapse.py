"""The Collapse page: gated, names the regime, says what is measured and what is a proxy, and computes
once.
"""

from __future__ import annotations

from typing import Any

import pytest

from pages.ui.session.labels import reveal_labels
from tests.pages.driving import go, open_app, session_of, text_of, with_sample

pytestmark = pytest.mark.usefixtures("workspace", "sample_folder", "started")


def test_cold_page_says_what_it_needs() -> None:
    assert "needs predictions" in text_of(go(open_app(), "collapse"))


def test_with_labels_it_measures() -> None:
    text = text_of(go(with_sample(open_app()), "collapse"))
    assert "Sure and wrong" in text
    assert "accuracy on your 25 labels" in text
    assert "of the best candidate by loss on your labels" in text  # the order is by loss, not by accuracy
    assert "Calibration error" in text
    assert "ATC and its ties" in text


def test_without_labels_it_says_proxy() -> None:
    app = with_sample(open_app())
    reveal_labels(session_of(app), 0)
    text = text_of(go(app, "collapse"))
    assert "a stand-in for accuracy" in text
    assert "need labels; there is no proxy" in text


def test_broken_assumptions_are_greyed_out() -> None:
    app = go(with_sample(open_app()), "collapse")
    failing = [part.value for part in app.markdown if ":red-badge[fails]" in part.value]
    assert any("Average confidence" in value for value in failing)
    assert all(value.startswith(":gray[") for value in failing)


def test_a_rerun_computes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    app = go(with_sample(open_app()), "collapse")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a rerun must not compute")

    # a page's own file is read again on every run and binds its names anew; its parts are modules, bound once
    monkeypatch.setattr("engine.diagnose.collapse.collapse_report", refuse)
    monkeypatch.setattr("pages.ui.parts.collapse.reliability_table", refuse)
    monkeypatch.setattr("pages.ui.session.evidence.decide", refuse)
    app.run()
    assert not app.exception
