"""verify under the guard: an honest bundle passes as it does here, a forged one costs little and says why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.__main__ import main
from engine.exports.guarded import verify_guarded
from engine.exports.verification import Wanted, verify
from engine.types import UserError
from tests.hostile import onnx_files
from tests.hostile.bundle_files import bomb, forge, genuine


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return genuine(tmp_path_factory.mktemp("honest") / "out")


def test_an_honest_bundle_passes_with_the_same_checks(honest: Path, tmp_path: Path) -> None:
    found = verify_guarded(honest, Wanted())
    assert found.passed
    assert [check.name for check in found.checks] == [check.name for check in verify(honest).checks]
    np.save(tmp_path / "images.npy", np.zeros((2, 8, 8, 3), np.uint8))
    unknown = verify_guarded(honest, Wanted(images=str(tmp_path / "images.npy")))
    assert unknown.checks[-1].name == "your images"
    assert not unknown.passed


@pytest.mark.parametrize(
    "name", ["expand_the_input", "constant_of_shape", "random_answers", "billion_laughs"]
)
def test_a_hostile_model_is_not_verified_and_the_reason_is_on_stderr(
    name: str, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = {**onnx_files.RUNTIME, **onnx_files.STATIC}[name]()
    assert main(["verify", str(forge(honest, tmp_path / "forged", model=model))]) == 2
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1
    assert "not verified" in printed.err


@pytest.mark.slow
def test_a_model_that_does_not_end_is_ended(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANCHORPOINT_VERIFY_SECONDS", "2")
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    forged = forge(honest, tmp_path / "forged", model=onnx_files.endless_loop())
    with pytest.raises(UserError, match="running its model again took longer than"):
        verify_guarded(forged, Wanted())


@pytest.mark.slow
def test_a_bomb_is_stopped_by_its_bound(
    honest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANCHORPOINT_VERIFY_MEMORY_GB", "0.4")
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    assert main(["verify", str(bomb(honest, tmp_path / "bomb.zip", 1 << 28))]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (
            "probes",
            [{"probs": "", "n_images": 2**40, "n_classes": 2**40, "limit": 1.0, "seed": 0, "digests": []}],
        ),
        ("probes", []),
        ("files", {}),
        ("checks", [None]),
        ("recipe", None),
    ],
)
def test_a_forged_field_is_said_on_stderr(
    field: str, value: object, honest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(forge(honest, tmp_path / "forged", **{field: value}))]) == 2
    printed = capsys.readouterr().err
    assert len(printed.splitlines()) == 1
    assert printed.strip()
