"""Doubts in words: each sentence appears exactly when its reason holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.recommend.advice import FEW_LABELS, reservation, warnings_for
from engine.types import Choice

CHOICE = Choice(
    method="ce-combo",
    index=0,
    name="a",
    scores=np.array([0.1, 0.2]),
    ties=1,
    runner_up=1,
    margin=0.1,
    n_labels=40,
    coefficient=1.0,
    grid=np.array([0.0, 1.0, 64.0]),
)
MANY = np.arange(40) % 10


def said(labels: np.ndarray | None = MANY, n_classes: int = 10, **changes: object) -> str:
    choice = replace(CHOICE, **changes)  # type: ignore[arg-type]
    return " ".join(warnings_for(choice, n_classes=n_classes, labels=labels))


def test_a_sound_choice_has_no_warning() -> None:
    assert said() == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ties": 3}, "3 candidates share the best score"),
        ({"runner_up": None}, "Only one candidate is admissible"),
        ({"method": "atc-ne"}, "trusts confidence"),
        ({"method": "permutation-control"}, "do not deploy its pick"),
        ({"n_labels": 1}, "cannot be cross-validated"),
        ({"coefficient": 0.0}, "give no reason to leave the teacher"),
        ({"coefficient": 64.0}, "overrule the teacher almost completely"),
        ({"method": "auto", "n_labels": 0}, "nobody has checked whether the teacher itself is right"),
    ],
)
def test_each_reason_has_its_sentence(changes: dict[str, object], words: str) -> None:
    assert words in said(**changes)


def test_the_top_of_another_rules_grid_says_nothing() -> None:
    assert said(method="alignment", coefficient=64.0) == ""


def test_few_labels_and_few_classes() -> None:
    assert said(MANY[:24], n_labels=FEW_LABELS - 1).startswith("24 labels are few")
    assert "1 label is too few" in said(MANY[:1], n_labels=1)
    assert "cover 5 of 10 classes" in said(MANY % 5)
    assert said(MANY % 6) == ""


def test_one_class_comes_first_except_where_it_is_the_reservation() -> None:
    one_class = np.zeros(40, dtype=np.int64)
    assert said(one_class).startswith("All labels are of one class")
    assert "All labels are of one class" not in said(one_class, method="auto")


def test_the_reservation_is_one_class_or_no_better_than_guessing() -> None:
    assert reservation(0.5, 10, MANY) is None
    assert "All 3 labels are of one class" in str(reservation(0.5, 10, np.zeros(3, dtype=np.int64)))
    assert reservation(0.5, 10, np.zeros(1, dtype=np.int64)) is None
    # log 4 = 1.386: at that loss a guess is as good
    assert "no better than guessing (1.39)" in str(reservation(1.39, 4, MANY))
    assert reservation(1.38, 4, MANY) is None
