"""Lists of numbers as options state them."""

from __future__ import annotations

import pytest

from engine.commands.numbers import numbers, split
from engine.types import UserError


def test_numbers_are_read_with_or_without_blanks() -> None:
    assert numbers("0, .5,1e-8", "--floors", float, "1e-8") == (0.0, 0.5, 1e-8)
    assert split(" a, ,b ") == ["a", "b"]


@pytest.mark.parametrize("text", ["", "a", "4,x", "4;8", "4.5"])
def test_anything_else_names_the_option_and_gives_an_example(text: str) -> None:
    with pytest.raises(UserError, match=r"--bits is .* e\.g\. 4,8"):
        numbers(text, "--bits", int, "4,8")
