"""A teacher that behaved when it was imported and runs wild on the user's images: every step that runs it
ends in one line.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engine.deploy.latency import Stopwatch
from engine.predictions.preview import preview
from engine.target import open_images
from engine.teacher.guarded import load_once
from engine.types import UserError
from pages.ui.jobs.control import start
from pages.ui.workspace.folder import new_id
from tests.hostile.contract import Contract
from tests.hostile.moody_graphs import moody
from tests.pages.ui.jobs.test_control import wait_for

# Three seconds of processor time; on a crowded machine the wall clock, which has twelve, may end first.
WORDS = {"loops": r"took longer than (3|12) s", "swells": "more memory than it may have"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORDS)
def test_every_step_that_runs_it_says_one_line(
    kind: str, contract: Contract, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "1")
    path = Path("m.onnx")
    path.write_bytes(moody(kind).SerializeToString())
    Path("bright").mkdir()
    for level in range(240, 256):
        Image.fromarray(np.full((8, 8, 3), level, np.uint8)).save(f"bright/{level}.png")
    teacher = load_once(str(path), store=Path("store"))
    with pytest.raises(UserError, match=WORDS[kind]):
        preview(teacher, open_images("bright"), [0, 1])
    shared = ("--teacher", "m.onnx", "--images", "bright", "--store", "store")
    exported = ("export", *shared, "--candidate", "b4-channel-q99.5", "--out", "o")
    assert re.search(WORDS[kind], contract.run(*exported, made=("store", "o")))
    tailored = ("predict", *shared, "--family", "deploy", "--out", "p.npz")
    assert re.search(WORDS[kind], contract.run(*tailored, made=("store",)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORDS)
def test_timing_it_is_ended_too(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "0.2")
    graph = moody(kind).SerializeToString()
    watch = Stopwatch(graph, np.full((2, 3, 8, 8), 0.99, np.float32))
    with pytest.raises(UserError, match=r"timing it took longer than|cannot be timed"):
        watch.measure(graph, unpacked=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORDS)
def test_the_app_says_one_line(
    kind: str, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Preview, run and export of a visitor: each job fails with a reason, and the next can start."""
    monkeypatch.setenv("ANCHORPOINT_JUDGE_SECONDS", "0.3")
    (tmp_path / "m.onnx").write_bytes(moody(kind).SerializeToString())
    np.save(tmp_path / "bright.npy", np.full((16, 8, 8, 3), 250, np.uint8))
    folder, target, slug = workspace / new_id(), str(tmp_path / "bright.npy"), "b4-channel-q99.5"
    folder.mkdir(parents=True)
    start(folder, "import", spec=str(tmp_path / "m.onnx"))
    wait_for(folder, "import", "done")
    jobs: dict[str, dict[str, Any]] = {
        "preview": {"target": target},
        "predict": {"target": target, "recipes": [slug]},
        "export": {"slug": slug, "formats": [], "target": target, "source": "", "evidence": {}},
    }
    for name, arguments in jobs.items():
        start(folder, name, **arguments)
        message = wait_for(folder, name, "failed").message
        assert re.search(r"took longer than|no answer|more memory than it may have", message), (name, message)
        assert len(message.splitlines()) == 1
