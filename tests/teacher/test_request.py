"""One load request for every front end: what is stated wins, and nothing else changes."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.__main__ import main
from engine.predictions.file import load_predictions
from engine.teacher.load import Stated, load_teacher
from engine.teacher.request import InputShape, LoadRequest, parse_size
from engine.types import Preprocessing, UserError

OWN = Preprocessing(32, 32, resize=40, mean=(0.5, 0.4, 0.3))


def open_net(path: Path, channels: int | None = 3) -> Path:
    """A convolution and an average over whatever the image's size is: (n, 3, H, W) -> (n, 4)."""
    rng = np.random.default_rng(0)
    weights = {
        "conv": rng.normal(size=(6, 3, 3, 3)).astype(np.float32),
        "dense": rng.normal(size=(6, 4)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["images", "conv"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("MatMul", ["f", "dense"], ["scores"]),
    ]
    graph = helper.make_graph(
        nodes,
        "open",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", channels or "c", "h", "w"])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", 4])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return path


def test_the_keywords_are_the_fields_of_the_request() -> None:
    assert set(get_type_hints(Stated)) == {field.name for field in fields(LoadRequest)} - {"spec"}


def test_nothing_stated_changes_nothing() -> None:
    assert LoadRequest().preprocess(OWN) == OWN
    assert LoadRequest().shape == InputShape()


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"size": (48, 192)}, Preprocessing(48, 192, resize=192, mean=OWN.mean)),
        ({"size": (16, 24)}, Preprocessing(16, 24, resize=40, mean=OWN.mean)),
        ({"resize": 0}, Preprocessing(32, 32, mean=OWN.mean)),
        ({"resize": 36, "order": "BGR"}, Preprocessing(32, 32, resize=36, mean=OWN.mean, order="BGR")),
        (
            {"channels": 1, "layout": "NHWC"},
            Preprocessing(32, 32, resize=40, channels=1, layout="NHWC", mean=(0.0,), std=(1.0,)),
        ),
        (
            {"channels": 1, "mean": (0.2,), "scale": 1.0},
            Preprocessing(32, 32, resize=40, channels=1, mean=(0.2,), std=(1.0,), scale=1.0),
        ),
    ],
)
def test_what_is_stated_takes_the_place_of_the_models_own(stated: Any, expected: Preprocessing) -> None:
    assert LoadRequest(**stated).preprocess(OWN) == expected


def test_it_goes_through_json_whole() -> None:
    request = LoadRequest(
        spec="a.onnx", size=(48, 192), mean=(0.1, 0.2, 0.3), class_names=("a", "b"), preprocessing=OWN
    )
    assert LoadRequest.from_dict(json.loads(json.dumps(request.to_dict()))) == request
    assert LoadRequest(spec="a.onnx").to_dict() == {"spec": "a.onnx"}
    with pytest.raises(UserError, match="'shell'"):
        LoadRequest.from_dict({"spec": "a.onnx", "shell": "rm"})


@pytest.mark.parametrize("text", ["big", "0", "4x", "1x2x3", "-4", "4.5"])
def test_a_size_that_is_none_is_explained(text: str) -> None:
    with pytest.raises(UserError, match="224 or 192x256"):
        parse_size(text)


def test_an_open_file_takes_the_size_that_is_stated(tmp_path: Path) -> None:
    path = open_net(tmp_path / "open.onnx")
    with pytest.raises(UserError, match=r"size open.*--size"):
        load_teacher(path)
    teacher = load_teacher(path, size=(48, 192))
    assert teacher.preprocessing == Preprocessing(48, 192)
    assert load_teacher(LoadRequest(spec=str(path), size=(48, 192))).graph == teacher.graph
    colourless = open_net(tmp_path / "grey.onnx", channels=None)
    with pytest.raises(UserError, match=r"channels open.*--channels"):
        load_teacher(colourless, size=(8, 8))
    assert load_teacher(colourless, size=(8, 8), channels=3).preprocessing == Preprocessing(8, 8)
    with pytest.raises(UserError, match=r"the model takes 3xanyxany but the preprocessing makes 8x8x3"):
        load_teacher(path, size=(8, 8), layout="NHWC", channels=3)


def test_the_command_line_states_the_size_of_an_open_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, images = open_net(tmp_path / "open.onnx"), tmp_path / "x.npy"
    np.save(images, np.random.default_rng(1).integers(0, 256, (6, 48, 192, 3), dtype=np.uint8))
    out, teacher = tmp_path / "p.npz", ["--teacher", str(path), "--size", "48x192"]
    family = ["--bits", "4", "--ends", "quantized", "--store", str(tmp_path / "store")]
    assert main(["predict", *teacher, "--images", str(images), "--out", str(out), *family]) == 0
    # the oracle: pixels scaled to 0..1 through onnxruntime, which knows nothing of us
    import onnxruntime

    inputs = (np.load(images) / 255).astype(np.float32).transpose(0, 3, 1, 2)
    (scores,) = onnxruntime.InferenceSession(str(path)).run(None, {"images": inputs})
    exps = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        load_predictions(out).teacher, exps / exps.sum(axis=1, keepdims=True), atol=1e-5
    )
    export = ["export", *teacher, "--images", str(images), "--predictions", str(out)]
    name = load_predictions(out).names[0]
    assert main([*export, "--candidate", name, "--out", str(tmp_path / "deploy")]) == 0
    assert "--size=48x192" in json.loads((tmp_path / "deploy/certificate.json").read_text())["command"]
    capsys.readouterr()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arch", "extra"), [("resnet10t", {}), ("vit_tiny_patch16_224", {"img_size": 96})], ids=["cnn", "vit"]
)
def test_a_checkpoint_fine_tuned_at_96_pixels_is_imported_at_96(
    arch: str, extra: dict[str, int], tmp_path: Path
) -> None:
    import torch

    from engine.teacher.importers.timm import timm

    torch.manual_seed(0)
    model = timm().create_model(arch, num_classes=5, **extra).eval()
    torch.save(model.state_dict(), tmp_path / "mine.pth")
    teacher = load_teacher(tmp_path / "mine.pth", arch=arch, classes=5, size=(96, 96))
    assert (teacher.preprocessing.height, teacher.preprocessing.width) == (96, 96)
    import onnxruntime

    images = np.random.default_rng(0).normal(size=(2, 3, 96, 96)).astype(np.float32)
    session = onnxruntime.InferenceSession(teacher.graph)
    (outputs,) = session.run(None, {session.get_inputs()[0].name: images})
    with torch.no_grad():
        np.testing.assert_allclose(outputs, model(torch.from_numpy(images)).numpy(), atol=1e-4)


@pytest.mark.slow
def test_a_grey_checkpoint_is_imported_with_one_channel(tmp_path: Path) -> None:
    import torch

    from engine.teacher.importers.timm import timm

    model = timm().create_model("resnet10t", num_classes=5, in_chans=1)
    torch.save(model.state_dict(), tmp_path / "grey.pth")
    teacher = load_teacher(tmp_path / "grey.pth", arch="resnet10t", classes=5, size=(64, 64), channels=1)
    assert teacher.preprocessing.channels == 1
    np.testing.assert_allclose(teacher.preprocessing.mean, [(0.485 + 0.456 + 0.406) / 3])
