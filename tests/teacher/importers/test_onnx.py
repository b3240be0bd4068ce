"""ONNX files: what their metadata says, what their output means, and what is refused. Files are built node by
node.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper

from engine.teacher.graph import save
from engine.teacher.importers.onnx import import_graph
from engine.teacher.request import InputShape
from engine.types import Preprocessing, UserError
from tests.tiny_teacher import tiny_teacher

LINEAR = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
node = helper.make_node


def model(
    *nodes: Any, image: tuple[Any, ...] = ("n", 3, 2, 2), opset: int = 21, **stored: Any
) -> onnx.ModelProto:
    """Images -> Flatten -> MatMul with `w` -> `z`, then the given nodes, which end in `y`."""
    tensors = [
        numpy_helper.from_array(np.asarray(value), name) for name, value in {"w": LINEAR, **stored}.items()
    ]
    body = [
        node("Flatten", ["x"], ["f"]),
        node("MatMul", ["f", "w"], ["z"]),
        *(nodes or (node("Identity", ["z"], ["y"]),)),
    ]
    images = helper.make_tensor_value_info("x", TensorProto.FLOAT, image)
    scores = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(body, "g", [images], [scores], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def imported(proto: onnx.ModelProto, **options: Any) -> Any:
    return import_graph(proto.SerializeToString(), name="m", **options)


# --- what is understood -------------------------------------------------------------------


def test_everything_stated_survives_a_file(tmp_path: Path) -> None:
    teacher = tiny_teacher(output="probabilities")
    save(teacher, tmp_path / "t.onnx")
    again = import_graph(tmp_path / "t.onnx")
    assert (again.name, again.source, again.class_names) == ("tiny", "test", teacher.class_names)
    assert (again.kernels, again.preprocessing, again.output) == (
        teacher.kernels,
        teacher.preprocessing,
        "probabilities",
    )
    assert list(tmp_path.iterdir()) == [tmp_path / "t.onnx"]
    stated = import_graph(
        tmp_path / "t.onnx", name="mine", class_names=list("abcd"), preprocessing=Preprocessing(16, 16)
    )
    assert (stated.name, stated.class_names, stated.preprocessing.mean) == ("mine", tuple("abcd"), (0, 0, 0))
    assert stated.model_sha256 == again.model_sha256
    assert stated.fingerprint != again.fingerprint  # another preprocessing gives other predictions


@pytest.mark.parametrize(
    ("last", "output", "sentence"),
    [
        (node("Identity", ["z"], ["y"]), "logits", "returns logits"),
        (node("Softmax", ["z"], ["y"], axis=1), "probabilities", "ends in a softmax"),
        (node("LogSoftmax", ["z"], ["y"], axis=1), "logits", "log-softmax"),
    ],
)
def test_the_output_is_understood_and_said(last: Any, output: str, sentence: str) -> None:
    teacher = imported(model(last))
    assert teacher.output == output
    assert any(sentence in note for note in teacher.notes)


def test_a_softmax_written_out_is_recognised_by_its_values() -> None:
    nodes = (
        node("Exp", ["z"], ["e"]),
        node("ReduceSum", ["e", "axes"], ["s"]),
        node("Div", ["e", "s"], ["y"]),
    )
    assert imported(model(*nodes, axes=np.array([1]))).output == "probabilities"


def test_defaults_are_plain_and_said() -> None:
    teacher = imported(model())
    assert teacher.class_names == ("0", "1", "2")
    assert (teacher.preprocessing.height, teacher.preprocessing.layout, teacher.preprocessing.scale) == (
        2,
        "NCHW",
        1 / 255,
    )
    assert any("does not state its preprocessing" in note for note in teacher.notes)
    assert teacher.float_bytes == LINEAR.nbytes
    channels_last = imported(model(image=("n", 2, 2, 3)))
    assert channels_last.preprocessing.layout == "NHWC"


def test_a_fixed_batch_and_an_old_opset_are_lifted() -> None:
    teacher = imported(model(image=(1, 3, 2, 2), opset=11))
    proto = onnx.load_from_string(teacher.graph)
    assert proto.opset_import[0].version == 21
    images = np.random.default_rng(1).random((4, 3, 2, 2), np.float32)
    session = ort.InferenceSession(teacher.graph, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": images})[0], images.reshape(4, 12) @ LINEAR, rtol=1e-5)


@pytest.mark.parametrize("sizes", [[1, 12], [1, -1], [1, 4, 3]])
def test_a_batch_written_into_a_reshape_is_lifted(sizes: list[int]) -> None:
    nodes = [
        node("Reshape", ["f", "sizes"], ["r"], allowzero=1),
        node("Flatten", ["r"], ["a"]),
        node("MatMul", ["a", "v"], ["y"]),
    ]
    proto = model(*nodes, image=(1, 3, 2, 2), sizes=np.array(sizes), v=LINEAR)
    images = np.random.default_rng(1).random((4, 3, 2, 2), np.float32)
    session = ort.InferenceSession(imported(proto).graph, providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": images})[0], images.reshape(4, 12) @ LINEAR, rtol=1e-5)


def test_a_batch_that_cannot_be_lifted_is_refused_with_the_operator() -> None:
    proto = model(
        node("Concat", ["z", "row"], ["c"], axis=1),
        node("Identity", ["c"], ["y"]),
        image=(1, 3, 2, 2),
        row=np.ones((1, 3), np.float32),
    )
    with pytest.raises(UserError, match=r"its operator Concat .*dynamic batch size"):
        imported(proto)


def test_an_open_image_size_is_stated() -> None:
    proto = model(image=("n", 3, "h", "w"))
    with pytest.raises(UserError, match=r"\(--size\)"):
        imported(proto)
    assert imported(proto, shape=InputShape(size=(1, 4))).preprocessing == Preprocessing(1, 4)
    helper.set_model_props(proto, {"anchorpoint.preprocessing": Preprocessing(2, 2, resize=3).to_json()})
    assert imported(proto, shape=InputShape(size=(4, 1))).preprocessing == Preprocessing(4, 1, resize=4)


def test_weights_in_constant_nodes_and_among_the_inputs_are_found() -> None:
    proto = model()
    # as old exporters do
    proto.graph.input.insert(0, helper.make_tensor_value_info("w", TensorProto.FLOAT, LINEAR.shape))
    assert [kernel.name for kernel in imported(proto).kernels] == ["w"]
    tensor = proto.graph.initializer.pop()
    del proto.graph.input[0]
    proto.graph.node.insert(0, node("Constant", [], ["w"], value=tensor))
    teacher = imported(proto)
    np.testing.assert_array_equal(teacher.weights["w"], LINEAR)


def test_a_weight_the_graph_computes_is_quantized_as_it_is_used() -> None:
    proto = model(
        node("Mul", ["v", "gain"], ["scaled"]),
        node("Cast", ["half"], ["cast"], to=TensorProto.FLOAT),
        node("MatMul", ["z", "scaled"], ["m"]),
        node("MatMul", ["m", "cast"], ["y"]),
        v=np.eye(3, dtype=np.float32) + 1,
        gain=np.float32(3),
        half=np.eye(3, dtype=np.float16),
    )
    teacher = imported(proto)
    assert [kernel.name for kernel in teacher.kernels] == ["w", "v.effective", "half.effective"]
    np.testing.assert_array_equal(teacher.weights["v.effective"], 3 * (np.eye(3) + 1))
    assert any("computed by the model" in note for note in teacher.notes)
    assert import_graph(teacher.graph, name="again").kernels == teacher.kernels


# --- what is refused ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proto", "message"),
    [
        (model(node("Sigmoid", ["z"], ["y"])), "sigmoid"),
        (model(node("Softmax", ["z"], ["y"], axis=0)), "something other than the classes"),
        (model(node("ReduceSum", ["z", "axes"], ["y"]), axes=np.array([1])), "at least 2 classes"),
        (model(node("Unsqueeze", ["z", "axes"], ["y"]), axes=np.array([2])), "one row of class scores"),
        (model(node("Reshape", ["z", "shape"], ["y"]), shape=np.array([1, -1])), "one row of class scores"),
        (model(node("Div", ["z", "zero"], ["y"]), zero=np.float32(0)), "not finite"),
        (
            model(
                node("DequantizeLinear", ["q", "s"], ["d"]),
                node("Add", ["z", "d"], ["y"]),
                q=np.int8([1]),
                s=np.float32(1),
            ),
            "quantized",
        ),
        (model(image=("n", 6, 1, 2)), "6 channels"),
        (model(image=("n", 12)), "4"),
    ],
)
def test_what_is_no_image_classifier_is_refused(proto: onnx.ModelProto, message: str) -> None:
    with pytest.raises(UserError, match=message):
        imported(proto)


def test_several_inputs_or_outputs_are_refused() -> None:
    proto = model()
    proto.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    with pytest.raises(UserError, match=r"2 outputs \(y, z\)"):
        imported(proto)
    proto = model(node("Add", ["z", "extra"], ["y"]))
    proto.graph.input.append(helper.make_tensor_value_info("extra", TensorProto.FLOAT, [1]))
    with pytest.raises(UserError, match=r"2 inputs \(x, extra\)"):
        imported(proto)


def test_stated_facts_must_fit() -> None:
    with pytest.raises(UserError, match="2 class names"):
        imported(model(), class_names=["a", "b"])
    with pytest.raises(UserError, match="takes 3x2x2 but the preprocessing makes 3x4x4"):
        imported(model(), preprocessing=Preprocessing(4, 4))
    proto = model()
    onnx.helper.set_model_props(proto, {"anchorpoint.preprocessing": "{"})
    with pytest.raises(UserError, match="preprocessing cannot be read"):
        imported(proto)


@pytest.mark.parametrize("cut", [0, 1, 20, 200])
def test_a_damaged_file_is_refused(cut: int) -> None:
    content = tiny_teacher().graph
    with pytest.raises(UserError):
        import_graph(content[: len(content) - 1 - cut * 20] if cut else b"", name="m")
    with pytest.raises(UserError):
        import_graph(os.urandom(cut * 10 + 1), name="m")


# --- data outside the file ----------------------------------------------------------------


def with_outside_data(folder: Path, location: str, **entry: int) -> Path:
    """A model whose weight lies in `location`; the data file itself is beside the model as `w.bin`."""
    folder.mkdir(exist_ok=True)
    proto = model()
    (folder / "w.bin").write_bytes(LINEAR.tobytes())
    external_data_helper.set_external_data(proto.graph.initializer[0], location, **entry)
    proto.graph.initializer[0].ClearField("raw_data")
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_data_beside_the_file_is_read(tmp_path: Path) -> None:
    teacher = import_graph(with_outside_data(tmp_path, "w.bin", offset=0, length=LINEAR.nbytes))
    np.testing.assert_array_equal(teacher.weights["w"], LINEAR)


def test_data_elsewhere_is_refused(tmp_path: Path) -> None:
    outside = with_outside_data(tmp_path / "other", "w.bin").parent / "w.bin"
    for location in ("../other/w.bin", str(outside)):
        with pytest.raises(UserError, match="outside the model's folder"):
            import_graph(with_outside_data(tmp_path / "model", location))
    (tmp_path / "model" / "link.bin").symlink_to(outside)
    with pytest.raises(UserError, match="outside the model's folder"):
        import_graph(with_outside_data(tmp_path / "model", "link.bin"))
    with pytest.raises(UserError, match="missing"):
        import_graph(with_outside_data(tmp_path / "model", "absent.bin"))
    with pytest.raises(UserError, match="too short"):
        import_graph(with_outside_data(tmp_path / "model", "w.bin", offset=100, length=LINEAR.nbytes))
    path = with_outside_data(tmp_path / "model", "w.bin")
    with pytest.raises(UserError, match="size limit"):
        import_graph(path, max_bytes=path.stat().st_size)
    with pytest.raises(UserError, match="a teacher has up to"):
        import_graph(path, max_bytes=10)
    with pytest.raises(UserError, match="second file"):
        import_graph(path.read_bytes(), name="m")
