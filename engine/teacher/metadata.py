"""What other people's ONNX files say of themselves: class names and normalisation, under the keys that common
exporters use.

Knows texts only, and trusts none: bounded in length, parsed as plain data, left alone where they make no
sense.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engine.types import Preprocessing

# Ultralytics writes `names`, transformers `id2label`, QGIS's Deepness `class_names` and `standardization_*`.
_NAMES = ("class_names", "names", "classes", "labels", "id2label", "label_names", "categories")
_MEANS, _STDS = ("mean", "standardization_mean", "image_mean"), ("std", "standardization_std", "image_std")
_LONGEST = 1 << 20  # characters; the 21,843 names of ImageNet-21k take half of it
_LONGEST_NAME = 200
_PIXELS = 2.5  # a mean above this is counted in pixels of 0..255, not of 0..1


def class_names_in(facts: Mapping[str, str]) -> tuple[str, ...]:
    """Return the class names that a file's metadata holds, in order of the outputs; () if it holds none.

    >>> class_names_in({"names": "{0: 'cat', 1: 'dog'}"}), class_names_in({"classes": "cat,dog"})
    (('cat', 'dog'), ('cat', 'dog'))
    """
    for key in _NAMES:
        names = _in_order(_plain(_find(facts, key)))
        if len(names) > 1 and all(0 < len(name) <= _LONGEST_NAME for name in names):
            return names
    return ()


def normalisation_in(facts: Mapping[str, str], given: Preprocessing) -> Preprocessing | None:
    """Return the preprocessing with the mean and std that a file's metadata holds; None if it holds none."""
    mean, std = (
        next((found for key in keys if (found := _numbers(_find(facts, key), given.channels))), ())
        for keys in (_MEANS, _STDS)
    )
    if not mean or not std or min(std) <= 0:
        return None
    return replace(given, scale=1.0 if max(mean) > _PIXELS else 1 / 255, mean=mean, std=std)


def _find(facts: Mapping[str, str], key: str) -> str:
    return next((value for name, value in facts.items() if name.lower() == key), "")


def _plain(text: str) -> Any:
    """Read JSON, a Python literal, or a list of words; the text's length is bounded before anything is
    parsed.
    """
    if not text.strip() or len(text) > _LONGEST:
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
            continue
    lines = [line for line in text.splitlines() if line.strip()]
    return lines if len(lines) > 1 else text.replace(";", ",").split(",")


def _in_order(value: Any) -> tuple[str, ...]:
    """Return names from a list, or from a mapping of 0..K-1 to names (or of names to 0..K-1)."""
    if isinstance(value, dict):
        if value and all(_index(item) is not None for item in value.values()):
            value = {item: key for key, item in value.items()}
        by_index = {_index(key): item for key, item in value.items()}
        if set(by_index) != set(range(len(value))):
            return ()
        value = [by_index[index] for index in range(len(value))]
    if not isinstance(value, list | tuple) or not all(isinstance(item, str | int) for item in value):
        return ()
    return tuple(" ".join(str(item).split()) for item in value)  # a name has one line


def _index(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 8:
        return int(value)
    return value if type(value) is int else None


def _numbers(text: str, channels: int) -> tuple[float, ...]:
    value = _plain(text)
    given = list(value) if isinstance(value, list | tuple) else [value]
    try:
        numbers = tuple(float(item) for item in given)
    except (TypeError, ValueError, OverflowError):
        return ()
    if len(numbers) not in (1, channels) or not all(math.isfinite(number) for number in numbers):
        return ()
    return numbers if len(numbers) == channels else numbers * channels
