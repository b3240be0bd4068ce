"""The examples of docs/api.md, run as they stand: what a reader copies must work."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "api.md"


def examples() -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 2
    return "\n".join(blocks)


def test_the_documented_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(examples(), str(DOCUMENT), "exec"), names)
    said = capsys.readouterr().out
    assert said.startswith("b4-channel-q99.5")  # 8 bits do not fit the budget
    assert "a pickle runs code when it is opened" in said
    assert (tmp_path / "deploy" / "model.onnx").stat().st_size > 10_000
    assert names["engine"].load_predictions("family.npz").candidates.shape == (4, 60, 10)
