"""Small classifiers in every awkward form, made node by node; and the bad files that lie among good ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE, CLASSES = 8, 4


def linear(
    *,
    layout: str = "NCHW",
    batch: int | str = "batch",
    channels: int = 3,
    side: int | str = SIDE,
    classes: int = CLASSES,
    take: int = TensorProto.FLOAT,
    softmax: bool = False,
    outputs: int = 1,
    seed: int = 0,
) -> onnx.ModelProto:
    """Mean over the image per channel, then a dense layer: runs at any size, in any layout."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((channels, classes)).astype(np.float32) * 4
    axes = [2, 3] if layout == "NCHW" else [1, 2]
    shape = [batch, channels, side, side] if layout == "NCHW" else [batch, side, side, channels]
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("ReduceMean", ["f", "axes"], ["m"], keepdims=0),
        helper.make_node("MatMul", ["m", "w"], ["z" if softmax else "y"]),
    ]
    if softmax:
        nodes.append(helper.make_node("Softmax", ["z"], ["y"], axis=-1))
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, classes])]
    if outputs == 2:
        nodes.append(helper.make_node("Neg", ["m"], ["features"]))
        results.insert(0, helper.make_tensor_value_info("features", TensorProto.FLOAT, [batch, channels]))
    graph = helper.make_graph(
        nodes,
        "linear",
        [helper.make_tensor_value_info("x", take, shape)],
        results,
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array(axes, np.int64), "axes")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def between(model: onnx.ModelProto, node: onnx.NodeProto) -> onnx.ModelProto:
    """The same model with the mean of what `node` makes (its "r") added before the dense layer."""
    mean = helper.make_node("ReduceMean", ["r"], ["mean"], keepdims=0)
    added = helper.make_node("Add", ["m", "mean"], ["moved"])
    dense = model.graph.node[2]
    dense.input[0] = "moved"
    nodes = [*model.graph.node[:2], node, mean, added, *model.graph.node[2:]]
    kept = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    return model


def external(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model claiming that its weights are in a file outside its folder."""
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    return model


def custom(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with an operator of somebody's own library."""
    model.graph.node[0].domain = "evil.ops"
    model.opset_import.append(helper.make_opsetid("evil.ops", 1))
    return model


def write_bad(folder: Path) -> dict[str, str]:
    """Write six files that cannot be judged; return words of the reason for each, by name."""
    whole = linear().SerializeToString()
    contents = {
        "broken.onnx": whole[: len(whole) // 2],
        "noise.tflite": bytes(range(256)) * 40,
        "crafted.tflite": b"\x1c\x00\x00\x00TFL3" + b"\xff" * 2000,
        "outside.onnx": external(linear()).SerializeToString(),
        "custom.onnx": custom(linear()).SerializeToString(),
        "classes.onnx": linear(classes=7).SerializeToString(),
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    return {
        "broken": "damaged|cannot open|runs",
        "noise": "no TFLite file",
        "crafted": "LiteRT cannot open|ended abnormally",
        "outside": "second file",
        "custom": "Custom operators",
        "classes": "7 classes",
    }
