"""A teacher that behaved when it was imported and runs wild on the user's images: every step that runs it
ends in one line.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.predictions.preview import preview
from engine.target import open_images
from engine.teacher.guarded import load_once
from engine.types import UserError
from tests.hostile.contract import Contract
from tests.hostile.moody_graphs import moody

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
