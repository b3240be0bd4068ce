"""Read-only links: unguessable, apart from the session's own id, switched off for good, and never a path."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages.ui.workspace.folder import RECORD, is_id, new_id, write_json
from pages.ui.workspace.projects import duplicate, put_away
from pages.ui.workspace.sharing import key_of, share, shared_with, stop_sharing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / new_id()
    write_json(found / RECORD, {"title": "mine"})
    return found


def test_a_key_opens_what_was_shared_and_names_nothing_else(folder: Path, tmp_path: Path) -> None:
    key = share(folder, {"brief": 1})
    assert is_id(key)
    assert key != folder.name
    assert shared_with(tmp_path, key) == {"brief": 1}
    assert shared_with(tmp_path, folder.name) is None, "a session's id is no key"
    assert share(folder, {"brief": 2}) == key == key_of(folder), "the link stays the same"
    assert shared_with(tmp_path, key) == {"brief": 2}
    stop_sharing(folder)
    assert shared_with(tmp_path, key) is None
    assert key_of(folder) == ""
    assert share(folder, {"brief": 3}) != key, "a link that was switched off never comes back"


@pytest.mark.parametrize("key", ["", "*", "?" * 22, "../" * 7 + "a", "[a-z]" * 4 + "aa", "a/b" + "c" * 19])
def test_only_a_well_formed_key_is_looked_for(key: str, folder: Path, tmp_path: Path) -> None:
    share(folder, {"brief": 1})
    assert shared_with(tmp_path, key) is None


def test_a_link_follows_work_that_is_put_away_and_not_its_copy(folder: Path, tmp_path: Path) -> None:
    key = share(folder, {"brief": 1})
    project = put_away(folder)
    assert shared_with(tmp_path, key) == {"brief": 1}
    copy = duplicate(folder, project)
    assert key_of(folder / "projects" / copy) == ""
    stop_sharing(folder / "projects" / project)
    assert shared_with(tmp_path, key) is None
