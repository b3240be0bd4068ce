"""Lists of numbers as an option states them. Knows commas and the sentence that explains them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.types import UserError

Number = TypeVar("Number", int, float)


def split(text: str) -> list[str]:
    """Return the parts between commas, without blanks."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(text: str, option: str, kind: Callable[[str], Number], example: str) -> tuple[Number, ...]:
    """Return the numbers of an option's text. Raises UserError, naming the option, if they are none.

    >>> numbers("4, 8", "--bits", int, "4,8")
    (4, 8)
    """
    try:
        found = tuple(kind(part) for part in split(text))
    except ValueError:
        found = ()
    if not found:
        raise UserError(f"{option} is {text!r}; it needs numbers separated by commas, e.g. {example}.")
    return found
