"""The decision as a page: complete, self-contained, and no text of a user's becomes markup."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from html.parser import HTMLParser

import pytest

from engine.decide.brief import Brief, Dot, LabelOrigin, Standing
from engine.diagnose.comparison import Interval
from engine.exports.decision_page import decision_page
from engine.exports.evidence import brief_in
from engine.types import UserError

EVIL = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
BRIEF = Brief(
    verdict="b overrides the recommendation a (p = 0.93).",
    is_firm=False,
    teacher=Standing(
        name="the float teacher", accuracy=Interval(0.9, 0.8, 0.95), loss=Interval(0.3, 0.2, 0.4)
    ),
    pick=Standing(name="b", accuracy=Interval(0.625, 0.4, 0.8), loss=Interval(0.5, 0.4, 0.625), memory=0.125),
    recommended=Standing(name="a", probability=0.93),
    method="auto",
    n_candidates=2,
    n_admissible=2,
    n_images=120,
    n_labels=16,
    n_classes=10,
    n_classes_labeled=7,
    trust="No wrong labels show.",
    origin=LabelOrigin(sources={"typed": 16}),
    concerns=("16 labels are few.",),
    dots=(Dot(name="a", memory=0.25, height=0.75), Dot(name="b", memory=0.125, height=0.625)),
    preprocessing="Images are squashed.",
    title="My net",
    made="2026-01-01 10:00 UTC",
)


class Tags(HTMLParser):
    """Collects what a browser would see as tags and as text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data


def test_says_everything_once() -> None:
    page = Tags(decision_page(BRIEF))
    for words in (
        *("overrides the recommendation a (p = 0.93)", "62.5 % (40 to 80 %)", "90.0 % (80 to 95 %)"),
        *("0.500 (0.400 to 0.625)", "12.5 % of float", "2 candidates on 120 images", "16 typed in the app"),
        *("No wrong labels show.", "16 labels are few.", "Images are squashed.", "My net", "2026-01-01"),
    ):
        assert words in page.text
    assert page.tags.count("circle") == 3  # two candidates and a ring


def test_no_text_becomes_markup_and_nothing_is_loaded() -> None:
    evil = replace(
        BRIEF,
        verdict=EVIL,
        pick=Standing(name=EVIL),
        title=EVIL,
        concerns=(EVIL,),
        preprocessing=EVIL,
        trust=EVIL,
        origin=LabelOrigin(sources={EVIL: 1}, people=(EVIL,)),
        dots=(Dot(name=EVIL, memory=0.1, height=0.5), Dot(name="b", memory=0.2, height=0.5)),
    )
    text = decision_page(evil)
    page = Tags(text)
    assert not {"script", "img", "link", "iframe", "a"} & set(page.tags)
    assert not [name for name in page.attributes if name.startswith("on") or name in ("src", "href")]
    assert "default-src 'none'" in text
    assert "@media print" in text
    assert "@page{margin:16mm}" in text  # a second sheet begins below its edge


def test_a_brief_survives_json_and_a_damaged_one_is_named() -> None:
    stored = json.loads(json.dumps({"brief": asdict(BRIEF)}))
    assert brief_in(stored) == BRIEF
    assert brief_in({}) is None
    stored["brief"]["pick"]["accuracy"]["low"] = "no number"
    with pytest.raises(UserError, match=r"evidence\.brief\.pick\.accuracy\.low"):
        brief_in(stored)
