"""Faults in the store: swapped, cut and foreign results are computed again, and a full or closed disk is
said.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from engine.predictions import store
from engine.predictions.store import is_intact, make_folder, read_array, write_array
from engine.types import UserError

SHAPE = (3, 2)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    paths = (tmp_path / "b4-channel-q100.npy", tmp_path / "b8-channel-q100.npy")
    for number, path in enumerate(paths):
        write_array(path, np.full(SHAPE, number, np.float32))
    return paths


def swap(a: Path, b: Path) -> None:
    a.rename(a.with_suffix(".aside"))
    b.rename(a)
    a.with_suffix(".aside").rename(b)


def test_results_that_changed_places_with_their_hashes_are_no_results(pair: tuple[Path, Path]) -> None:
    assert all(is_intact(path) for path in pair)
    swap(*pair)
    swap(pair[0].with_suffix(".sha256"), pair[1].with_suffix(".sha256"))
    assert [read_array(path, SHAPE) for path in pair] == [None, None]


def test_a_result_of_another_pool_or_teacher_is_no_result(pair: tuple[Path, Path], tmp_path: Path) -> None:
    """Folders are named by everything that could change a number; a file moved between two is foreign."""
    other = tmp_path / "another key" / pair[0].name
    other.parent.mkdir()
    for suffix in (".npy", ".sha256"):
        other.with_suffix(suffix).write_bytes(pair[0].with_suffix(suffix).read_bytes())
    assert read_array(pair[0], SHAPE) is not None
    assert read_array(other, SHAPE) is None


@pytest.mark.parametrize("damage", [b"", b"\x93NUMPY", bytes(500)])
def test_a_cut_or_foreign_result_is_no_result(damage: bytes, pair: tuple[Path, Path]) -> None:
    pair[0].write_bytes(damage)
    assert read_array(pair[0], SHAPE) is None
    assert read_array(pair[1], SHAPE) is not None


def test_a_result_of_another_shape_is_no_result(pair: tuple[Path, Path]) -> None:
    assert read_array(pair[0], (3, 3)) is None


def test_a_full_disk_is_said_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(store.np, "save", full)
    with pytest.raises(UserError, match="No space left"):
        write_array(tmp_path / "x.npy", np.zeros(SHAPE, np.float32))
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="cannot be created"):
        make_folder(tmp_path / "file" / "store")


def test_a_clock_that_jumps_back_removes_nothing_that_is_being_written(tmp_path: Path) -> None:
    partial = tmp_path / ".x.npy.1-1.tmp"
    partial.write_bytes(b"half")
    future = partial.stat().st_mtime + 10 * 365 * 24 * 3600
    os.utime(partial, (future, future))
    make_folder(tmp_path)
    assert partial.exists()
