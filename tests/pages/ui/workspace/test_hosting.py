"""Where and how the app runs, read from the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages.ui.workspace.hosting import hosting


@pytest.mark.parametrize(("value", "is_demo"), [(None, False), ("", False), ("0", False), ("1", True)])
def test_a_demo_is_asked_for(value: str | None, is_demo: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANCHORPOINT_DEMO", raising=False)
    if value is not None:
        monkeypatch.setenv("ANCHORPOINT_DEMO", value)
    host = hosting()
    assert host.is_demo is is_demo
    assert host.allows_server_paths is not is_demo
    assert host.allows_downloads is not is_demo


def test_a_demo_accepts_less_and_forgets_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANCHORPOINT_DEMO", raising=False)
    own = hosting()
    monkeypatch.setenv("ANCHORPOINT_DEMO", "1")
    demo = hosting()
    # the figures that docs/hosting.md states
    assert (demo.teacher_bytes, demo.limits.files, demo.limits.total_bytes) == (120e6, 2_000, 200e6)
    assert (demo.expiry_seconds, own.expiry_seconds) == (24 * 3600, 14 * 24 * 3600)
    assert demo.predictions_bytes < own.predictions_bytes


def test_sessions_live_where_the_environment_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ANCHORPOINT_WORKSPACE", str(tmp_path / "here"))
    assert hosting().root == tmp_path / "here"
    monkeypatch.delenv("ANCHORPOINT_WORKSPACE")
    monkeypatch.chdir(tmp_path)
    assert hosting().root == tmp_path / ".anchorpoint"
