"""What a project says of its images: kept as it is if sound, gone if a page could stumble over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pages.ui.jobs.control import start
from pages.ui.workspace.folder import new_id
from pages.ui.workspace.project_checks import CHECKS, keep_if_sound
from tests.pages.ui.jobs.test_control import wait_for


@pytest.fixture
def home(workspace: Path, tmp_path: Path) -> Path:
    """A session whose images were really looked at."""
    np.save(tmp_path / "images.npy", np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8))
    folder = workspace / new_id()
    folder.mkdir(parents=True)
    start(folder, "check", target=str(tmp_path / "images.npy"))
    wait_for(folder, "check", "done")
    return folder


def test_what_looking_found_is_kept_and_nothing_else(home: Path) -> None:
    path, odd = home / CHECKS, [None, "x", -1, [], {}, [None], [[7, 7]], [10**9], True]
    before = path.read_bytes()
    keep_if_sound(home)
    assert path.read_bytes() == before
    found: dict[str, Any] = json.loads(before)
    for name, good in found.items():
        for value in odd:
            path.write_text(json.dumps({**found, name: value}))
            keep_if_sound(home)
            assert not path.exists() or type(value) is type(good)
    path.write_text(json.dumps({**found, "order": [5]}))
    keep_if_sound(home)
    assert not path.exists()
    path.write_text("[" * 50_000)
    keep_if_sound(home)
    assert not path.exists()
    keep_if_sound(home)  # nothing there is fine, too
