"""Fixtures that page tests share: a workspace of their own, and a sample made in milliseconds in place of the shipped ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.types import Predictions


@pytest.fixture(scope="session")
def family() -> Predictions:
    """A synthetic family of 72 candidates, 120 images, 10 classes, with a test part."""
    from tests.synthetic_family import synthetic_predictions

    return synthetic_predictions(n_test=80)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Sessions of this test live in a folder of their own."""
    root = tmp_path / "sessions"
    monkeypatch.setenv("ANCHORPOINT_WORKSPACE", str(root))
    monkeypatch.delenv("ANCHORPOINT_DEMO", raising=False)
    yield root
