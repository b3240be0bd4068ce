"""load_teacher: every form of spec reaches its importer, and what is refused is refused with a way out."""

from __future__ import annotations

import builtins
import gc
import pickle
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.teacher import load
from engine.teacher.graph import save
from engine.teacher.load import load_teacher
from engine.types import Preprocessing, UserError
from tests.tiny_teacher import tiny_teacher


def message(spec: Any, **options: Any) -> str:
    with pytest.raises(UserError) as error:
        load_teacher(spec, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


# --- without a framework ------------------------------------------------------------------


def test_an_onnx_file_is_loaded_by_path_or_text(tmp_path: Path) -> None:
    save(tiny_teacher(), tmp_path / "t.onnx")
    by_path, by_text = (
        load_teacher(tmp_path / "t.onnx"),
        load_teacher(str(tmp_path / "t.onnx"), class_names=list("wxyz")),
    )
    assert by_path.fingerprint == by_text.fingerprint
    assert by_text.class_names == tuple("wxyz")


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".bin", ".ckpt", ".pb", ".tflite"])
def test_refused_formats_say_why_and_what_instead(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps({"a": 1}))
    assert "is refused" in message(path)


def test_cycles_are_not_collected_while_a_model_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def look(request: object) -> None:
        seen.append(gc.isenabled())
        raise UserError("seen")

    monkeypatch.setattr(load, "_load", look)
    with pytest.raises(UserError, match="seen"):
        load_teacher("net.onnx")
    assert (seen, gc.isenabled()) == ([False], True)


def test_specs_that_name_nothing_are_refused(tmp_path: Path) -> None:
    assert "no file" in message(tmp_path / "absent.onnx")
    assert "folder" in message(tmp_path)
    assert ".onnx, .keras" in message("resnet18")
    (tmp_path / "empty.onnx").touch()
    assert "is empty" in message(tmp_path / "empty.onnx")
    save(tiny_teacher(), tmp_path / "t.onnx")
    assert "up to" in message(tmp_path / "t.onnx", max_bytes=100)


def test_a_checkpoint_needs_its_architecture(tmp_path: Path) -> None:
    (tmp_path / "w.safetensors").write_bytes(b"x" * 100)
    assert "(--arch and --classes)" in message(tmp_path / "w.safetensors")


def test_a_sample_is_loaded_by_name_and_restated(monkeypatch: pytest.MonkeyPatch) -> None:
    teacher = tiny_teacher()
    monkeypatch.setattr("engine.teacher.load.load_sample_teacher", lambda name: teacher)
    assert load_teacher("sample:tiny").fingerprint == teacher.fingerprint
    stated = load_teacher(
        "sample:tiny", preprocessing=Preprocessing(16, 16, order="BGR"), class_names=list("abcd")
    )
    assert (stated.preprocessing.order, stated.class_names, stated.graph) == (
        "BGR",
        tuple("abcd"),
        teacher.graph,
    )
    assert "takes 3x16x16 but the preprocessing makes 3x20x20" in message(
        "sample:tiny", preprocessing=Preprocessing(20, 20)
    )
    assert "2 class names" in message("sample:tiny", class_names=["a", "b"])


def test_a_missing_framework_names_the_pip_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.keras").write_bytes(b"x" * 100)
    real = builtins.__import__

    def without_keras(name: str, *args: Any, **options: Any) -> Any:
        if name.startswith("engine.teacher.importers.keras"):
            raise ModuleNotFoundError("No module named 'keras'", name="keras")
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without_keras)
    monkeypatch.setattr("engine.teacher.load.distribution", lambda name: name)
    expected = 'm.keras needs keras, which is not installed. Run: pip install "anchorpoint[keras]"'
    assert message(tmp_path / "m.keras") == expected

    def not_installed(name: str) -> Any:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("engine.teacher.load.distribution", not_installed)
    assert message(tmp_path / "m.keras").endswith("Run: pip install -r requirements.txt")


# --- torch and timm -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpoint() -> Any:
    from engine.teacher.importers.timm import build

    return build("resnet10t", 5).state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("wrapping", ["safetensors", "plain", "state_dict", "data-parallel", "compiled"])
def test_checkpoints_are_unwrapped(wrapping: str, checkpoint: Any, tmp_path: Path) -> None:
    import torch
    from safetensors.torch import save_file

    from engine.teacher.importers.checkpoint import read_weights

    path = tmp_path / ("w.safetensors" if wrapping == "safetensors" else "w.pth")
    prefix = {"data-parallel": "module.", "compiled": "_orig_mod."}.get(wrapping, "")
    weights = {prefix + name: value for name, value in checkpoint.items()}
    if wrapping == "safetensors":
        save_file(weights, path)
    else:
        torch.save({"state_dict": weights, "epoch": 3} if wrapping == "state_dict" else weights, path)
    read = read_weights(path, max_bytes=10**9)
    assert set(read) == set(checkpoint)
    assert all(torch.equal(read[name], value) for name, value in checkpoint.items())


@pytest.mark.slow
def test_a_timm_checkpoint_becomes_a_teacher_with_timms_preprocessing(
    checkpoint: Any, tmp_path: Path
) -> None:
    import torch

    torch.save(checkpoint, tmp_path / "mine.pth")
    teacher = load_teacher(tmp_path / "mine.pth", arch="resnet10t", classes=5, size=(64, 64))
    assert (teacher.name, teacher.n_classes, teacher.source) == ("mine", 5, "mine.pth (resnet10t)")
    np.testing.assert_array_equal(teacher.weights["fc.weight"], checkpoint["fc.weight"].numpy())
    # 64 / 0.875
    assert (teacher.preprocessing.height, teacher.preprocessing.resize, teacher.preprocessing.std) == (
        64,
        73,
        (0.229, 0.224, 0.225),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("arch", "size"), [("vit_tiny_patch16_224", (300, 260)), ("resnet18", (250, 500))])
def test_timms_data_config_is_the_preprocessing(arch: str, size: tuple[int, int]) -> None:
    """The oracle is the transform timm itself builds from its config."""
    from PIL import Image

    from engine.target.prepare import normalise, prepare
    from engine.teacher.importers.timm import build, timm, timm_preprocessing

    model = build(arch, 3)
    transform = timm().data.create_transform(
        **timm().data.resolve_model_data_config(model), is_training=False
    )
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3)).astype(np.uint8)
    stated = timm_preprocessing(model)
    np.testing.assert_allclose(
        normalise(prepare(pixels, stated)[None], stated)[0],
        transform(Image.fromarray(pixels)).numpy(),
        atol=1e-5,
    )


@pytest.mark.slow
def test_checkpoints_that_do_not_fit_are_refused(checkpoint: Any, tmp_path: Path) -> None:
    import torch

    path = tmp_path / "w.pth"
    torch.save(checkpoint, path)
    assert "fc.weight is (5, 512), resnet10t has (7, 512)" in message(path, arch="resnet10t", classes=7)
    torch.save({name: value for name, value in checkpoint.items() if name != "layer1.0.conv1.weight"}, path)
    assert "missing tensors: layer1.0.conv1.weight" in message(path, arch="resnet10t", classes=5)
    torch.save({**checkpoint, "aux.weight": torch.zeros(1)}, path)
    assert "unexpected tensors: aux.weight" in message(path, arch="resnet10t", classes=5)
    assert "Did you mean resnet10t" in message(path, arch="resnet10", classes=5)
    assert "(--classes)" in message(path, arch="resnet10t")
    path.write_bytes(path.read_bytes()[:9000])
    assert "damaged" in message(path, arch="resnet10t", classes=5)
    torch.save([1, 2], path)
    assert "no state dict" in message(path, arch="resnet10t", classes=5)


class _Fires:
    def __reduce__(self) -> Any:
        return (open, ("fired", "w"))


@pytest.mark.slow
def test_a_pickled_model_is_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    for content in (torch.nn.Linear(2, 2), {"state_dict": {"w": torch.zeros(2)}, "extra": _Fires()}):
        torch.save(content, tmp_path / "whole.pth")
        assert "Python objects" in message(tmp_path / "whole.pth", arch="resnet10t", classes=5)
    (tmp_path / "raw.pth").write_bytes(pickle.dumps(_Fires()))
    message(tmp_path / "raw.pth", arch="resnet10t", classes=5)
    assert not (tmp_path / "fired").exists()


@pytest.mark.slow
def test_timm_names_are_checked_before_any_download(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.teacher.importers import timm as importer

    monkeypatch.setattr(importer, "_answers", lambda url: False)
    untrained = next(
        name for name in importer.timm().list_models() if not importer.timm().models.is_model_pretrained(name)
    )
    assert "Did you mean" in message("timm:resnet18x")
    assert "no pretrained weights" in message(f"timm:{untrained}")
    assert "(--arch and --classes)" in message("timm:resnet18")
