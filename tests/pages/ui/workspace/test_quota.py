"""Room on disk: a visitor has a part, all together have one, and both are said in a line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.types import UserError
from pages.ui.workspace import quota
from pages.ui.workspace.hosting import hosting
from pages.ui.workspace.quota import check_room, used_bytes


def test_bytes_are_counted_below_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x").write_bytes(bytes(300))
    (tmp_path / "a" / "y").write_bytes(bytes(20))
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    link = (tmp_path / "a" / "loop").lstat().st_size
    assert used_bytes(tmp_path) == 320 + link
    assert used_bytes(tmp_path / "nothing") == 0


def test_a_visitor_and_all_together_have_their_part(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota, "_FRESH", 0.0)
    folders = [workspace / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "x").write_bytes(bytes(600))
    host = replace(hosting(), visitor_bytes=1000, total_bytes=1500)
    check_room(folders[0], host, 300)
    with pytest.raises(UserError, match="your work may take 1e-06 GB here"):
        check_room(folders[0], host, 500)
    with pytest.raises(UserError, match="all visitors together"):
        check_room(folders[0], host, 350)
    check_room(folders[0], hosting(), 10**12)  # one's own machine has no quota


def test_the_demo_has_limits_and_a_host_may_set_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORPOINT_DEMO", "1")
    demo = hosting()
    # the figures that docs/hosting.md states
    assert (demo.visitor_bytes, demo.total_bytes, demo.job_seconds) == (10**9, 20 * 10**9, 900)
    monkeypatch.setenv("ANCHORPOINT_VISITOR_GB", "2.5")
    assert hosting().visitor_bytes == 2_500_000_000
    for wrong in ("much", "-1", "nan", "0"):
        monkeypatch.setenv("ANCHORPOINT_JOB_SECONDS", wrong)
        with pytest.raises(UserError, match="ANCHORPOINT_JOB_SECONDS"):
            hosting()
