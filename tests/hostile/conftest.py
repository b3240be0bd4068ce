"""A fresh folder, store and log place for every hostile case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.contract import Contract


@pytest.fixture
def contract(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Contract:
    made = Contract(tmp_path, capsys)
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    monkeypatch.setenv("ANCHORPOINT_STORE", str(made.folder / "store"))
    monkeypatch.chdir(made.folder)
    return made
