"""Counts, shares and lists as a person reads them, wherever a sentence is composed. Knows no subject.

A count agrees with its noun and verb, a share is a whole percentage that never rounds a doubt away, and a
list says how much of it was left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, and with its verb where both forms are given.

    >>> counted(1, "label"), counted(1200, "image"), counted(1, "label is", "labels are")
    ('1 label', '1,200 images', '1 label is')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def out_of(n: int, total: int, noun: str, verbs: tuple[str, str]) -> str:
    """Return how many of so many do something; `verbs` is the verb for one and for several.

    >>> out_of(1, 72, "candidate", ("fits", "fit")), out_of(0, 1, "candidate", ("fits", "fit"))
    ('1 of 72 candidates fits', '0 of 1 candidate fit')
    """
    return f"{n:,} of {counted(total, noun)} {verbs[0] if n == 1 else verbs[1]}"


def percent(share: float) -> str:
    """Return a share as a whole percentage; what is neither nothing nor everything is not called so.

    >>> percent(0.534), percent(0.001), percent(0.999), percent(1.0), percent(float("nan"))
    ('53 %', 'under 1 %', 'over 99 %', '100 %', 'an unknown share')
    """
    if not math.isfinite(share):
        return "an unknown share"
    whole = round(100 * share)
    if whole == 0 and share > 0:
        return "under 1 %"
    return "over 99 %" if whole == 100 and share < 1 else f"{whole} %"


def listed(items: Sequence[str], limit: int = 3) -> str:
    """Return a list in words, cut after `limit` items.

    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e"]), listed(["a"]), listed([])
    ('a, b and c', 'a, b, c and 2 more', 'a', '')
    """
    if len(items) > limit:
        return f"{', '.join(items[:limit])} and {len(items) - limit} more"
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))
