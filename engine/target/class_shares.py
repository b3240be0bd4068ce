"""How frequent the classes are in the target, where somebody knows: equally, or as a small CSV says.

Knows the CSV contract and what shares may be. Knows nothing of rules: they read shares that sum to one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from engine.target.labels import LabelSpace, csv_records, csv_rows, label_of
from engine.types import Floats, UserError
from engine.words import percent

EQUAL = "equal"
LEAST = 1e-4  # no class is excluded: what is stated to be absent is taken for this rare
_MAX_BYTES = 1 << 20
_COLUMNS = ("class", "share")
_NAMED = 3  # classes named at each end


def read_class_shares(text: str, *, n_classes: int, class_names: Sequence[str] | None = None) -> Floats:
    """Return the shares (K,) that a word or a file states: `equal`, or the path of a CSV of class,share.

    Raises UserError for a file that cannot be read so.
    """
    if text == EQUAL:
        return np.full(n_classes, 1 / n_classes)
    path = Path(text)
    if not path.is_file():
        raise UserError(
            f"{text!r} is neither `{EQUAL}` nor a file.",
            "Give a CSV with the columns class,share.",
            option="class_shares",
        )
    if path.stat().st_size > _MAX_BYTES:
        raise UserError(f"{path.name} is too large for class shares.", "Keep the columns class,share only.")
    return parse_class_shares(path.read_bytes(), name=path.name, n_classes=n_classes, class_names=class_names)


def parse_class_shares(
    data: bytes, *, name: str, n_classes: int, class_names: Sequence[str] | None = None
) -> Floats:
    """Parse the bytes of a CSV of class,share: a class by its name or number, its share as any number from 0
    (counts and percentages do as well: the sum is made one). Every class needs a line.
    """
    space = LabelSpace(n_rows=0, n_classes=n_classes, class_names=class_names)
    reader = csv_rows(data, name)
    columns = {(field or "").strip().lower(): field for field in reader.fieldnames or ()}
    if not set(_COLUMNS) <= set(columns):
        raise UserError(f"{name} has no columns class,share.", "Write class,share as its first line.")
    shares: dict[int, float] = {}
    for record in csv_records(reader, name):
        where = f"{name}, line {reader.line_num}"
        label = label_of((record[columns["class"]] or "").strip(), where, space)
        if label in shares:
            raise UserError(f"{where}: this class stands twice.", "Keep one line for each class.")
        shares[label] = _share((record[columns["share"]] or "").strip(), where)
    absent = n_classes - len(shares)
    if absent:
        raise UserError(
            f"{name} leaves {absent} of {n_classes} classes out.",
            "Give every class a line; 0 is a share too.",
        )
    return checked_shares([shares[label] for label in range(n_classes)], n_classes)


def _share(text: str, where: str) -> float:
    try:
        share = float(text.removesuffix("%"))
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise UserError(f"{where}: {text[:40]!r} is no share.", "Give a number from 0, e.g. 0.12.")
    return share


def checked_shares(values: Any, n_classes: int) -> Floats:
    """Return shares (K,) that sum to one, none of them zero. Raises UserError for what cannot be shares."""
    array = np.asarray(values)
    if array.shape != (n_classes,) or not np.issubdtype(array.dtype, np.number):
        raise UserError(
            f"class_shares must be {n_classes} numbers, got shape {array.shape} of {array.dtype}.",
            "Give the share of each class in the target.",
        )
    shares = array.astype(np.float64)
    if not np.isfinite(shares).all() or (shares < 0).any() or not shares.sum() > 0:
        raise UserError(
            "class_shares has a negative or non-finite entry, or only zeros.",
            "Give the share of each class in the target, e.g. 0.1.",
        )
    shares = np.maximum(shares / shares.sum(), LEAST)
    return np.asarray(shares / shares.sum())


def shares_in_words(shares: Floats) -> str:
    """Return shares as a line that `shares_of` reads again: `equal`, or one number a class."""
    if np.allclose(shares, 1 / len(shares), rtol=0, atol=1e-9):
        return EQUAL
    return ",".join(f"{share:.9g}" for share in shares)


def shares_of(words: str, n_classes: int) -> Floats | None:
    """Return the shares (K,) of such a line; None where it says nothing, or nothing of so many classes."""
    if words == EQUAL:
        return np.full(n_classes, 1 / n_classes)
    try:
        values = [float(word) for word in words.split(",")] if words else []
        return checked_shares(values, n_classes) if len(values) == n_classes else None
    except (ValueError, UserError):
        return None


def shares_words(shares: Floats, names: Sequence[str]) -> str:
    """'Taken as stated: most frequent zero (28 %), one (22 %), two (17 %); rarest nine (3 %), ….'"""
    if np.allclose(shares, 1 / len(shares), rtol=0, atol=1e-9):
        return f"Taken as stated: each of the {len(shares)} classes is equally frequent."
    order = np.argsort(-shares, kind="stable")
    most, rarest = (
        ", ".join(f"{names[k]} ({percent(shares[k])})" for k in some)
        for some in (order[:_NAMED], order[::-1][: min(_NAMED, len(order) - _NAMED)])
    )
    return f"Taken as stated: most frequent {most}" + (f"; rarest {rarest}." if rarest else ".")
