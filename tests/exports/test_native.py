"""Native copies: packed codes at every width, drop-in state dicts and Keras files against the frameworks
themselves.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from engine.exports.native import load_packed, native_copies
from engine.exports.parity import probabilities
from engine.exports.writing import write
from engine.family.recipes import parse_slug
from engine.family.weights import candidate_weights
from engine.teacher.agreement import random_images
from engine.types import UserError
from tests.awkward_teacher import awkward_teacher
from tests.judged import judged_probabilities
from tests.tiny_teacher import tiny_teacher


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_packed_round_trip_at_the_true_width(tmp_path: Path, bits: int, granularity: str) -> None:
    teacher, recipe = awkward_teacher(), parse_slug(f"b{bits}-{granularity}-q99.5-ends")
    native_copies(tmp_path, teacher, recipe, ("packed",), None)
    path = tmp_path / "packed.safetensors"
    found, judged = load_packed(path), candidate_weights(teacher, recipe)
    for kernel in teacher.kernels:
        expected = judged.get(kernel.name, teacher.weights[kernel.name])
        assert found[kernel.name].dtype == np.float32
        assert found[kernel.name].tobytes() == np.ascontiguousarray(expected).tobytes()
    assert set(found) == {kernel.name for kernel in teacher.kernels} | {"bias"}
    stored = load_file(path)
    for kernel in teacher.kernels[1:-1]:
        assert stored[f"{kernel.name}.codes"].nbytes == -(-kernel.size * bits // 8)


def test_manifest_can_be_read_without_our_code(tmp_path: Path) -> None:
    """Unpack one kernel by the documented manifest alone, bit by bit."""
    teacher, recipe = tiny_teacher(), parse_slug("b3-channel-q99")
    native_copies(tmp_path, teacher, recipe, ("packed",), None)
    with safe_open(tmp_path / "packed.safetensors", framework="numpy") as file:
        manifest = json.loads(file.metadata()["manifest"])
        codes, scales = file.get_tensor("point.codes"), file.get_tensor("point.scales")
    entry = manifest["kernels"]["point"]
    stream = int.from_bytes(codes.tobytes(), "little")
    n, bits = int(np.prod(entry["shape"])), entry["bits"]
    values = [(stream >> (bits * i)) & (2**bits - 1) for i in range(n)]
    signed = np.array(
        [value - 2**bits if value >= 2 ** (bits - 1) else value for value in values], np.float32
    ).reshape(entry["shape"])
    assert entry["axes"] == [0]
    expected = signed * scales[:, None, None, None]
    np.testing.assert_array_equal(expected, candidate_weights(teacher, recipe)["point"])


def test_damaged_packed_files_are_refused(tmp_path: Path) -> None:
    native_copies(tmp_path, tiny_teacher(), parse_slug("b3-channel-q99"), ("packed",), None)
    good = (tmp_path / "packed.safetensors").read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(good[:-9])
    save_file({"a": np.zeros(3, np.float32)}, tmp_path / "plain.safetensors")
    manifest = {
        "format": "anchorpoint packed 1",
        "kernels": {"w": {"shape": [9, 9], "bits": 4, "axes": [0], "op": "Conv", "groups": 1}},
    }
    short = {"w.codes": np.zeros(3, np.uint8), "w.scales": np.ones(9, np.float32)}
    save_file(short, tmp_path / "short.safetensors", metadata={"manifest": json.dumps(manifest)})
    save_file(
        short, tmp_path / "other.safetensors", metadata={"manifest": json.dumps({**manifest, "format": "x"})}
    )
    for name in ("cut", "plain", "short", "other", "absent"):
        with pytest.raises(UserError):
            load_packed(tmp_path / f"{name}.safetensors")


def test_float_copy_without_a_source_holds_the_kernels_and_says_so(tmp_path: Path) -> None:
    teacher, recipe = tiny_teacher(), parse_slug("b4-channel-q99-ends")
    (note,) = native_copies(tmp_path, teacher, recipe, ("safetensors",), None)
    found = load_file(tmp_path / "model.safetensors")
    assert set(found) == {"depthwise", "point"}
    assert "kernels only" in note
    for name, expected in candidate_weights(teacher, recipe).items():
        np.testing.assert_array_equal(found[name], expected)


@pytest.mark.slow
def test_torch_copy_is_a_drop_in(tmp_path: Path) -> None:
    import torch
    from safetensors.torch import load_file as load_torch
    from safetensors.torch import save_file as save_torch

    from engine.teacher.importers.timm import timm
    from engine.teacher.load import load_teacher
    from tests.teacher.importers.cases import randomize

    model = randomize(timm().create_model("resnet10t", num_classes=4))
    save_torch(model.state_dict(), tmp_path / "source.safetensors")
    teacher = load_teacher(tmp_path / "source.safetensors", arch="resnet10t", classes=4)
    recipe = parse_slug("b3-channel-q99.5-ends")
    source = tmp_path / "source.safetensors"
    certificate = write(
        teacher, recipe, tmp_path / "out", formats=("onnx", "safetensors"), source_path=source, profiles=False
    )
    assert any("complete state dict" in note for note in certificate.notes)
    fresh = timm().create_model("resnet10t", num_classes=4).eval()
    fresh.load_state_dict(load_torch(tmp_path / "out" / "model.safetensors"), strict=True)
    images = random_images(3, teacher.preprocessing, 0)
    with torch.no_grad():
        outputs = fresh(torch.from_numpy(images)).numpy()
    assert (
        np.abs(probabilities(outputs, "logits") - judged_probabilities(teacher, recipe, images)).max() < 1e-5
    )
    # the kernels alone, over the original weights, give the same model
    native_copies(tmp_path, teacher, recipe, ("safetensors",), None)
    model.load_state_dict(load_torch(tmp_path / "model.safetensors"), strict=False)
    with torch.no_grad():
        np.testing.assert_array_equal(model(torch.from_numpy(images)).numpy(), outputs)


@pytest.mark.slow
def test_keras_copy_is_a_drop_in(tmp_path: Path) -> None:
    import keras

    from engine.teacher.load import load_teacher
    from tests.teacher.importers.cases import keras_hand

    keras.utils.set_random_seed(0)
    source = tmp_path / "source.keras"
    keras_hand().save(source)
    teacher, recipe = load_teacher(source), parse_slug("b3-channel-q99.5")
    certificate = write(
        teacher,
        recipe,
        tmp_path / "out",
        formats=("onnx", "keras", "packed"),
        source_path=source,
        profiles=False,
    )
    assert certificate.passed
    copy = keras.saving.load_model(tmp_path / "out" / "model.keras", safe_mode=True)
    images = random_images(3, teacher.preprocessing, 0)
    outputs = np.asarray(copy(images, training=False))
    assert np.abs(outputs - judged_probabilities(teacher, recipe, images)).max() < 1e-5
