"""Fixtures that page tests share: a workspace of their own, and a sample made in milliseconds in place of the
shipped ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.types import Predictions


@pytest.fixture(scope="session")
def family() -> Predictions:
    """A synthetic family of 72 candidates, 120 images, 10 classes, with a test part."""
    from tests.synthetic_family import synthetic_predictions

    return synthetic_predictions(n_test=80)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sessions of this test live in a folder of their own."""
    root = tmp_path / "sessions"
    monkeypatch.setenv("ANCHORPOINT_WORKSPACE", str(root))
    monkeypatch.delenv("ANCHORPOINT_DEMO", raising=False)
    return root


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """No process is started; what would have been is listed as (kind, arguments)."""
    calls: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(
        "pages.ui.jobs.control.start", lambda folder, kind, **arguments: calls.append((kind, arguments))
    )
    return calls


@pytest.fixture
def sample_folder(tmp_path: Path, family: Predictions, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two samples ship with the synthetic family as their predictions."""
    from engine.predictions.file import save_predictions

    folder = tmp_path / "samples"
    folder.mkdir()
    for name in ("digits-resnet", "pacs-sketch"):
        save_predictions(family, folder / f"{name}.npz")
    monkeypatch.setattr("engine.samples.FOLDER", folder)
    return folder
