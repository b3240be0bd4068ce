"""Numbers and names as a person reads them: three significant digits, kB and MB, percent of float memory."""

from __future__ import annotations

import re

import numpy as np

from engine.decide.titles import rule_title
from engine.study.protocol.config import STUDY_RULES
from engine.types import UserError
from engine.words import counted as counted
from engine.words import listed as listed

# the fields of the form for bare weights
ARCHITECTURE, CLASSES = (
    "“Architecture (a timm name)”",
    "“Number of classes”",
)
SIZE, LAYOUT, CHANNELS = ("“Input size”", "“Layout”", "“Channels”")
CLASS_NAMES = "“Class names”"
# An option of the engine -> the field that states it here. What has no field is left out of the sentence.
FIELDS = {
    "arch": ARCHITECTURE,
    "classes": CLASSES,
    "size": SIZE,
    "layout": LAYOUT,
    "channels": CHANNELS,
    "class_names": CLASS_NAMES,
    "mean": "“Mean, one number per channel”",
    "std": "“Std, one number per channel”",
    "scale": "“Scale”",
    "resize": "“Resize the shorter side”",
    "order": "“Channel order”",
    "labels": "“Labels”",
    "budget": "“Memory budget”",
}


def number(value: float | None) -> str:
    """Three significant digits; a dash where there is no number."""
    if value is None or not np.isfinite(value):
        return "–"
    if value != 0 and (abs(value) >= 1e5 or abs(value) < 1e-3):
        return f"{value:.2e}"
    text = f"{value:#.3g}"
    return text.rstrip(".")


def share(value: float | None) -> str:
    """A share as a percentage with three significant digits at most."""
    if value is None or not np.isfinite(value):
        return "–"
    percent = 100 * value
    return f"{percent:.0f} %" if percent >= 99.95 or percent == 0 else f"{percent:.3g} %"


def size(n_bytes: float | None) -> str:
    """Bytes as B, kB, MB or GB (powers of ten)."""
    if n_bytes is None or not np.isfinite(n_bytes):
        return "–"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor:
            return f"{n_bytes / factor:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def memory_words(cost: float, float_bytes: int | None, whole: str = "float") -> str:
    """'12.9 % of float, 1.1 MB', as far as it is known; `whole` is what it is a share of."""
    parts = [f"{share(cost)} of {whole}"] if cost == cost else []
    return ", ".join([*parts, size(cost * float_bytes)] if float_bytes else parts)


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def in_fields(error: UserError) -> str:
    """The engine's message with the app's own names for the options it is about."""
    return error.said(FIELDS)


def sentence(text: str) -> str:
    """The text with a capital at its beginning, unless it begins with a name: files are called as they are.

    >>> sentence("there is no file"), sentence("model.onnx is empty"), sentence("labels_2.csv is empty")
    ('There is no file', 'model.onnx is empty', 'labels_2.csv is empty')
    """
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def short_title(rule: str) -> str:
    """A rule's name for the legend of a picture, where there is little room."""
    return (
        re.sub(r" \(.*\)", "", rule_title(rule))
        .replace("Direct validation, cross-entropy", "Validation, loss")
        .replace("Direct v", "V")
    )


_RULE_NAMES = re.compile(
    rf"(?<![\w-])({'|'.join(sorted(map(re.escape, STUDY_RULES), key=len, reverse=True))})(?![\w-])"
)


def with_titles(sentence: str) -> str:
    """The sentence with every rule called as on the pages, not as on the command line."""
    return _RULE_NAMES.sub(lambda match: rule_title(match[0]), sentence)
