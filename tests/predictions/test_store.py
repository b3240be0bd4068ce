"""Finished work on disk: what is whole is read back, and whatever does not check out counts as not done."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from engine.predictions import store
from engine.types import UserError

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_stored_array_comes_back(tmp_path: Path) -> None:
    store.write_array(tmp_path / "a.npy", ARRAY)
    found = store.read_array(tmp_path / "a.npy", (2, 3))
    assert found is not None
    assert np.array_equal(found, ARRAY)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "a.sha256"]


def test_what_does_not_check_out_is_not_done(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    assert store.read_array(path, (2, 3)) is None  # nothing there
    store.write_array(path, ARRAY)
    assert store.read_array(path, (3, 2)) is None  # another shape
    path.write_bytes(path.read_bytes()[:-1])
    assert store.read_array(path, (2, 3)) is None  # cut short
    store.write_array(path, ARRAY.astype(np.float64))
    assert store.read_array(path, (2, 3)) is None  # another type
    store.write_array(path, ARRAY)
    path.with_suffix(".sha256").write_bytes(b"\xff\xfe")
    assert not store.is_intact(path)  # a hash that is no text


def test_a_file_that_is_no_array_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "part").write_bytes(b"not an array")
    store.commit(tmp_path / "part", tmp_path / "a.npy")
    assert store.is_intact(tmp_path / "a.npy")
    assert store.read_array(tmp_path / "a.npy", (2, 3)) is None


def test_the_key_changes_with_every_part_and_not_with_their_order() -> None:
    assert store.store_key({"a": 1, "b": 2}) == store.store_key({"b": 2, "a": 1})
    assert store.store_key({"a": 1, "b": 2}) != store.store_key({"a": 1, "b": 3})


def test_only_abandoned_parts_are_cleared_away(tmp_path: Path) -> None:
    old, new = tmp_path / ".old.npy.1-2.tmp", tmp_path / ".new.npy.1-2.tmp"
    for path in (old, new):
        path.write_bytes(b"half")
    long_ago = time.time() - 2 * 3600
    os.utime(old, (long_ago, long_ago))
    store.make_folder(tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_store_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be created"):
        store.make_folder(tmp_path / "file" / "store")
    with pytest.raises(UserError, match="cannot be written"):
        store.write_array(tmp_path / "no folder" / "a.npy", ARRAY)


def test_the_default_store_is_where_the_environment_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ANCHORPOINT_STORE", str(tmp_path))
    assert store.default_store() == tmp_path
    monkeypatch.delenv("ANCHORPOINT_STORE")
    assert store.default_store().parts[-2:] == (".cache", "anchorpoint")
