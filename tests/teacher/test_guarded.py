"""A teacher loaded in a child process is the teacher loaded here, and its refusals are the same sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.teacher.guarded import load_guarded
from engine.teacher.load import load_teacher
from engine.types import Preprocessing, UserError

SAMPLE = Path(__file__).parents[2] / "sample_models" / "digits-vit.onnx"


def test_the_same_teacher_comes_back(tmp_path: Path) -> None:
    stages: list[str] = []
    preprocessing = Preprocessing(32, 32, channels=1, mean=(0.0,), std=(1.0,))
    names = tuple("abcdefghij")
    here = load_teacher(SAMPLE, preprocessing=preprocessing, class_names=names)
    there = load_guarded(
        SAMPLE,
        preprocessing=preprocessing,
        class_names=names,
        on_report=lambda stage, done, total: stages.append(stage),
    )
    assert there.fingerprint == here.fingerprint
    assert (there.class_names, there.preprocessing) == (here.class_names, here.preprocessing)
    assert (there.notes, there.float_bytes, there.name) == (here.notes, here.float_bytes, here.name)
    assert all((there.weights[key] == here.weights[key]).all() for key in here.weights)
    assert stages[-1] == "running the model on random images"


def test_a_refusal_is_the_same_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("broken.onnx").write_bytes(b"\x08\x07 no graph")
    for spec in ("broken.onnx", "missing.onnx", "model.pkl", ""):
        with pytest.raises(UserError) as here:
            load_teacher(Path(spec).absolute() if spec else "")
        with pytest.raises(UserError) as there:
            load_guarded(spec)
        assert str(there.value) == str(here.value)
