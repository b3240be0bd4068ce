"""Opening a traced batch size: the graph gives at any batch what NumPy gives, wherever the size stood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.teacher.batch import TRACED_BATCH, open_traced_batch

B = TRACED_BATCH
TOKEN = np.arange(3, dtype=np.float32).reshape(1, 1, 3)
PIECES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], Callable[[Any], Any]]] = {
    "reshape": (
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        {"s": [B, 12]},
        lambda x: x.reshape(len(x), 12),
    ),
    "windows": (  # batch and windows in one axis, as Swin does
        [helper.make_node("Reshape", ["x", "s"], ["y"], allowzero=1)],
        {"s": [4 * B, 3]},
        lambda x: x.reshape(-1, 3),
    ),
    "an axis left to infer": (
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        {"s": [2 * B, -1, 3]},
        lambda x: x.reshape(2 * len(x), -1, 3),
    ),
    "class token": (
        [
            helper.make_node("Expand", ["token", "s"], ["t"]),
            helper.make_node("Concat", ["t", "x"], ["y"], axis=1),
        ],
        {"s": [B, 1, 3]},
        lambda x: np.concatenate([np.repeat(TOKEN, len(x), axis=0), x], axis=1),
    ),
    "zeros": (
        [helper.make_node("ConstantOfShape", ["s"], ["z"]), helper.make_node("Add", ["x", "z"], ["y"])],
        {"s": [B, 1, 3]},
        lambda x: x,
    ),
    "repeats": (
        [helper.make_node("Tile", ["token", "s"], ["t"]), helper.make_node("Mul", ["x", "t"], ["y"])],
        {"s": [B, 1, 1]},
        lambda x: x * TOKEN,
    ),
}


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_opened_graph_takes_any_batch(name: str, n: int) -> None:
    nodes, shapes, expected = PIECES[name]
    stored = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in shapes.items()]
    stored.append(numpy_helper.from_array(TOKEN, "token"))
    images = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 3])
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes],
        name,
        [images],
        [output],
        stored,
    )
    open_traced_batch(graph)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(n).standard_normal((n, 4, 3)).astype(np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected(x))


def test_a_weight_keeps_a_size_that_happens_to_be_a_multiple() -> None:
    weight = np.arange(2.0 * B, dtype=np.float32).reshape(2 * B, 1)
    graph = helper.make_graph(
        [
            helper.make_node("Reshape", ["w", "s"], ["v"]),
            helper.make_node("MatMul", ["x", "v"], ["y"]),
        ],
        "weight",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", B])],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array([2, B]), "s")],
    )
    open_traced_batch(graph)
    assert [list(node.input) for node in graph.node] == [["w", "s"], ["x", "v"]]
