"""Numbers and names as a person reads them."""

from __future__ import annotations

import math

import pytest

from engine.types import UserError
from pages.ui.show import words


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (math.nan, "–"), (0, "0.00"), (0.12345, "0.123"), (123.4, "123"), (1e-4, "1.00e-04")],
)
def test_three_digits(value: float | None, text: str) -> None:
    assert words.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0, "0 %"), (1, "100 %"), (0.1294, "12.9 %"), (0.99949, "99.9 %")]
)
def test_shares(value: float | None, text: str) -> None:
    assert words.share(value) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(None, "–"), (999, "999 B"), (1500, "1.5 kB"), (2_340_000, "2.34 MB"), (4e9, "4 GB")],
)
def test_sizes(n_bytes: float | None, text: str) -> None:
    assert words.size(n_bytes) == text


def test_memory_says_as_much_as_is_known() -> None:
    assert words.memory_words(0.129, 1_000_000) == "12.9 % of float, 129 kB"
    assert words.memory_words(0.129, None) == "12.9 % of float"
    assert words.memory_words(math.nan, None) == ""


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (120, "2 min"), (5400, "1.5 h")])
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_counts_and_lists() -> None:
    assert [words.counted(n, "image") for n in (1, 1200)] == ["1 image", "1,200 images"]
    assert words.counted(2, "family", "families") == "2 families"
    assert [words.listed(items) for items in ([], ["a"], ["a", "b"], list("abcde"))] == [
        "",
        "a",
        "a and b",
        "a, b, c and 2 more",
    ]


def test_rules_have_titles_everywhere() -> None:
    assert words.rule_title("auto") == "Auto (recommended)"
    assert words.rule_title("of your own") == "of your own"
    assert words.short_title("val-ce") == "Validation, loss"
    assert (
        words.with_titles("auto beats val-ce, not val-ce2")
        == "Auto (recommended) beats Direct validation, cross-entropy, not val-ce2"
    )


def test_an_option_is_called_by_its_field() -> None:
    error = UserError("the size is open.", "State it.", option="size")
    assert "Input size" in words.in_fields(error)
    assert "--size" not in words.in_fields(error)
