"""Read-only links: a decision as it stood when it was shared, in a file that only its own key names.

The key is random and says nothing of the session it lies in; the file holds what is shown and nothing else.
Knows folders; nothing of Streamlit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pages.ui.workspace.folder import is_id, new_id, read_json, remove, write_json

_FILE = "share-{key}.json"
_PLACES = ("*", "*/projects/*")  # work at hand, and work that was put away


def share(folder: Path, content: Mapping[str, Any]) -> str:
    """Keep what is shared in the session's folder and return its key; an earlier link of this work shows it
    too.
    """
    key = key_of(folder) or new_id()
    write_json(folder / _FILE.format(key=key), content)
    return key


def key_of(folder: Path) -> str:
    """Return the key under which this work is shared, or "" if it is not."""
    keys = [path.stem.removeprefix("share-") for path in sorted(folder.glob(_FILE.format(key="*")))]
    return next((key for key in keys if is_id(key)), "")


def stop_sharing(folder: Path) -> None:
    """Switch the link off: nothing answers to its key any more."""
    for path in folder.glob(_FILE.format(key="*")):
        remove(path)


def shared_with(root: Path, key: str) -> dict[str, Any] | None:
    """Return what is shared under a key, or None if nothing is; only a well-formed key is ever looked for.

    Opening a link changes nothing, not even the time at which the session expires.
    """
    if not is_id(key):
        return None
    name = _FILE.format(key=key)
    for place in _PLACES:
        for folder in root.glob(place):
            if os.path.isfile(folder / name):
                return read_json(folder / name)
    return None
