"""What a stranger's project says of its images: kept if it has the form that looking at images gives it, else
left out, and the images are looked at again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.types import UserError
from pages.ui.workspace.folder import read_json

CHECKS = "checks.json"
# one value of each kind; a list of one stands for a list of any length
_FORM: dict[str, Any] = {
    "n_images": 0,
    "order": [0],
    "bad": [[""]],
    "n_bad": 0,
    "duplicates": [[""]],
    "duplicate_rows": [[0]],
    "heights": [0],
    "widths": [0],
    "n_duplicates": 0,
    "class_folders": [""],
    "notes": [""],
}


def keep_if_sound(home: Path) -> None:
    """Remove what is said of the images if it cannot have been found by looking at them."""
    try:
        found = read_json(home / CHECKS)
    except UserError:
        found = {}
    if found is not None and not _is_sound(found):
        (home / CHECKS).unlink()


def _is_sound(found: dict[str, Any]) -> bool:
    if not all(_is_like(found.get(name), form) for name, form in _FORM.items()):
        return False
    pairs = [*found["bad"], found["heights"], found["widths"]]
    rows = [row for group in found["duplicate_rows"] for row in group]
    return (
        all(len(pair) == 2 for pair in pairs)
        and all(0 <= index < found["n_images"] for index in found["order"])
        and all(0 <= row < len(found["order"]) for row in rows)
    )


def _is_like(value: Any, form: Any) -> bool:
    if isinstance(form, list):
        return isinstance(value, list) and all(_is_like(item, form[0]) for item in value)
    return type(value) is type(form)
