"""The table people look through: every filter against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from engine.decide.answers import Which, answer_table, browse
from engine.decide.choose import statistics_of
from engine.types import Predictions

LABELS = {5: 0, 2: 1, 9: 2}


@pytest.fixture(scope="module")
def table(family: Predictions):  # type: ignore[no-untyped-def]
    return answer_table(family, statistics_of(family), 3)


def test_answers_are_the_models_own(family: Predictions, table) -> None:  # type: ignore[no-untyped-def]
    for row in (0, 7, 50):
        assert table["teacher"][row] == family.teacher[row].argmax()
        assert table["pick"][row] == family.candidates[3][row].argmax()
        assert table["pick_probability"][row] == family.candidates[3][row].max()
        classes = family.candidates[:, row].argmax(axis=1)
        assert table["split"][row] == pytest.approx(np.mean(classes != family.teacher[row].argmax()))


@pytest.mark.parametrize(
    ("which", "marked"),
    [
        ("labeled", ()),
        ("unlabeled", ()),
        ("suspected", (9, 5)),
        ("unsure", (7,)),
        ("differs", ()),
        ("disagreed", ()),
    ],
)
# type: ignore[no-untyped-def]
def test_each_filter_shows_what_it_says(table, which: Which, marked: tuple[int, ...]) -> None:
    shown = browse(table, LABELS, which, marked=marked)
    rows = set(range(len(table)))
    expected = {
        "labeled": {5, 2, 9},
        "unlabeled": rows - {5, 2, 9},
        "suspected": {9, 5},
        "unsure": {7},
        "differs": {row for row, label in LABELS.items() if table["teacher"][row] != label},
        "disagreed": {row for row in rows if table["teacher"][row] != table["pick"][row]},
    }[which]
    assert set(shown["row"]) == expected
    assert len(shown) == len(expected)
    for row, label in zip(shown["row"], shown["label"], strict=True):
        assert label == LABELS.get(row, -1)
    if which == "suspected":
        assert shown["row"].tolist() == [9, 5]  # the least probable label first, as given
    if which == "disagreed":
        assert shown["split"].is_monotonic_decreasing


def test_a_class_is_its_labels_and_else_the_teachers_answers(table) -> None:  # type: ignore[no-untyped-def]
    shown = browse(table, LABELS, "labeled", of_class=1)
    assert shown["row"].tolist() == [2]
    shown = browse(table, LABELS, "unlabeled", of_class=1)
    assert (shown["teacher"] == 1).all()
    assert not set(shown["row"]) & set(LABELS)
