"""Sentences that are put together from counts: noun and verb agree with 0, 1, 2 and many, and no share is
rounded into certainty.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decide.brief import Brief, LabelOrigin, Standing, compared_words, label_words
from engine.decide.limits import Limits
from engine.diagnose.collapse_words import collapsed_title, single_class_words
from engine.recommend.advice import reservation, warnings_for
from engine.recommend.doubt import Doubt
from engine.recommend.summary import reasons
from engine.types import Choice
from engine.words import counted, listed, out_of, percent
from pages.ui.show.glossary import GLOSSARY, PAPER

COUNTS = (0, 1, 2, 25, 1200)
_NOUNS = "label|image|candidate|class|family|layer|line|file|job|project|bit|cell"
_ONE_OF_MANY = re.compile(rf"(?<![\d.,–-])1 (?:\w+ )?(?:{_NOUNS})(?:s|es)\b|(?<![\d.,])1 famil(?:ies)\b")
_MANY_OF_ONE = re.compile(rf"(?<![\d.,])(?!1 )\d[\d,]* (?:more |other )?(?:{_NOUNS})\b(?!s|es|ies|-)")
_ONE_ARE = re.compile(rf"(?<![\d.,])1 (?:{_NOUNS}) (?:are|have|give|agree|fit)\b")


def agrees(sentence: str) -> bool:
    """Whether every count in the sentence has the noun and the verb it needs; '1 of 72 candidates' may be."""
    return not any(
        pattern.search(sentence) for pattern in (_ONE_OF_MANY, _MANY_OF_ONE, _ONE_ARE)
    ) and not re.search(r"\(s\)", sentence)


@pytest.mark.parametrize(
    "bad", ["1 labels are few", "1 image are few", "2 label is", "1 families", "3 channel(s)", "0 image left"]
)
def test_the_reader_of_this_test_sees_faults(bad: str) -> None:
    assert not agrees(bad)


@pytest.mark.parametrize("good", ["1 of 72 candidates fits", "1,201 images", "4-bit", "1 label"])
def test_and_sees_none_where_there_is_none(good: str) -> None:
    assert agrees(good)


@given(st.integers(0, 10**7), st.sampled_from(["label", "image", "candidate"]))
def test_counts_agree(n: int, noun: str) -> None:
    said = counted(n, noun)
    assert agrees(said)
    assert int(said.split()[0].replace(",", "")) == n
    assert out_of(n, n + 2, noun, ("fits", "fit")).endswith(" fits" if n == 1 else " fit")


@given(st.floats(0, 1))
def test_a_percentage_is_near_and_never_certain_by_rounding(share: float) -> None:
    said = percent(share)
    assert (said == "0 %") == (share == 0)
    assert (said == "100 %") == (share == 1)
    whole = int(re.findall(r"\d+", said)[0])
    assert abs(whole - 100 * share) <= 1


@given(st.lists(st.sampled_from("abcdefg"), max_size=7, unique=True), st.integers(1, 7))
def test_a_list_names_or_counts_everything(items: list[str], limit: int) -> None:
    said = listed(items, limit)
    named = [item for item in items if item in re.findall(r"\b[a-g]\b", said.replace("and", ""))]
    more = re.findall(r"and (\d+) more", said)
    assert len(named) + (int(more[0]) if more else 0) == len(items)


CHOICE = Choice(
    method="auto", index=0, name="a", scores=np.array([0.1, 0.2]), ties=1, runner_up=1, margin=0.1, n_labels=0
)


@pytest.mark.parametrize("n", COUNTS)
def test_warnings_and_reasons_agree(n: int) -> None:
    labels = np.arange(n) % 7
    for ties in (1, 2):
        choice = replace(CHOICE, n_labels=n, ties=ties)
        for sentence in warnings_for(choice, n_classes=10, labels=labels if n else None):
            assert agrees(sentence), sentence
    assert agrees(reservation(3.0, 10, np.zeros(n, int)) or "")
    summary = {
        **{"teacher_confidence": 0.9, "teacher_accuracy": 0.999, "consensus_weight": 0.1, "kappa": 0.2},
        **{"error_rate": 0.1, "label_trust": "normal", "follows": "teacher", "class_shares": "unknown"},
    }
    for same in (1, 2, 9):
        doubt = Doubt(
            best=np.full(9, 0.1),
            close=np.full(9, 0.996),
            regret=np.zeros(9),
            same=tuple(range(same)),
            epsilon=0.02,
        )
        for sentence in reasons(summary, doubt, 0, n, shape=0.7):
            assert agrees(sentence), sentence
            assert "100 %" not in sentence


@pytest.mark.parametrize("n", COUNTS)
def test_the_brief_agrees(n: int) -> None:
    brief = Brief(
        **{"verdict": "", "is_firm": True, "method": "auto", "trust": "", "concerns": ()},
        teacher=Standing(name="t"),
        pick=Standing(name="a"),
        n_candidates=n,
        n_admissible=n,
        n_images=n,
        n_labels=n,
        n_classes=10,
        n_classes_labeled=min(n, 10),
        origin=LabelOrigin(sources={"typed": n}),
        limits=Limits(memory=0.22),
    )
    for sentence in (compared_words(brief), label_words(brief)):
        assert agrees(sentence), sentence


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("is_proxy", [False, True])
def test_collapse_agrees(n: int, is_proxy: bool) -> None:
    assert agrees(collapsed_title(n, n + 3, is_proxy=is_proxy))
    assert agrees(single_class_words(n, 0.01))


def test_one_word_for_one_thing() -> None:
    """An anchor is a score and an anchored rule adds labels to it; Anchorpoint is this program, no rule."""
    from engine.decide.choose import METHODS
    from engine.decide.titles import rule_title

    assert not any("Anchorpoint" in rule_title(method) for method in METHODS)
    assert {"Anchor", "Anchored rule", "Nat", "The paper"} <= set(GLOSSARY)
    assert PAPER in GLOSSARY["The paper"]
    assert "](https://" in GLOSSARY["The paper"]


@pytest.mark.parametrize(("probability", "nats"), [(0.9, "0.11"), (0.5, "0.69"), (0.1, "2.3")])
def test_the_feel_for_a_nat_is_right(probability: float, nats: str) -> None:
    said = GLOSSARY["Nat"]
    assert f"{percent(probability)}" in said
    assert nats in said
    assert float(nats) == pytest.approx(-np.log(probability), abs=0.05 if nats == "2.3" else 0.005)
    assert np.exp(-0.1) == pytest.approx(0.9, abs=0.006)
