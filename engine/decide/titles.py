"""What rules are called in front of people. Knows every rule's name and title, nothing of how it decides."""

from __future__ import annotations

from engine.rules.label_free import HIGHEST_PRECISION, LABEL_FREE
from engine.rules.supervised import SUPERVISED

_OTHER_TITLES = {
    HIGHEST_PRECISION: "Highest precision",
    "auto": "Auto (recommended)",
    "calibrated": "Calibrated teacher",
    "auto-active": "Auto (recommended), images chosen by label-next",
}


def rule_title(rule: str) -> str:
    """A rule's name for people."""
    if rule in SUPERVISED:
        return SUPERVISED[rule].title
    return LABEL_FREE[rule].title if rule in LABEL_FREE else _OTHER_TITLES.get(rule, rule)
