"""A fresh folder, store, home and log place for every hostile case."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.hostile.contract import Contract


@pytest.fixture
def contract(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Contract:
    made = Contract(tmp_path, capsys)
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    monkeypatch.setenv("ANCHORPOINT_STORE", str(made.folder / "store"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.chdir(made.folder)
    return made
