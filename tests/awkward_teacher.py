"""A teacher whose kernels lie in every layout an exporter meets: Keras Conv and depthwise, grouped
ConvTranspose, MatMul, Einsum, Gemm.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from engine.teacher.importers.onnx import import_graph
from engine.types import Teacher

AXES = {"conv": (3,), "depthwise": (2, 3), "up": (1,), "tokens": (1,), "heads": (1, 2), "out": (1,)}


def awkward_teacher(seed: int = 0, n_classes: int = 5) -> Teacher:
    """Return a teacher over (batch, 3, 8, 8) whose kernels have the output-channel axes `AXES`."""
    rng = np.random.default_rng(seed)
    shapes = {
        "conv": (3, 3, 3, 6),
        "depthwise": (3, 3, 6, 2),
        "up": (12, 5, 2, 2),
        "tokens": (10, 16),
        "heads": (16, 3, 7),
        "out": (21, n_classes),
    }
    stored = {name: (rng.standard_normal(shape) / 3).astype(np.float32) for name, shape in shapes.items()}
    stored["bias"] = rng.standard_normal(n_classes).astype(np.float32)
    constants = {
        "depthwise.shape": [12, 1, 3, 3],
        "flat.shape": [0, 10, -1],
        "heads.shape": [0, 0, 21],
        "mean.axes": [1],
    }
    nodes = [
        helper.make_node("Transpose", ["conv"], ["conv.t"], perm=[3, 2, 0, 1]),
        helper.make_node("Conv", ["x", "conv.t"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Transpose", ["depthwise"], ["depthwise.t"], perm=[2, 3, 0, 1]),
        helper.make_node("Reshape", ["depthwise.t", "depthwise.shape"], ["depthwise.r"]),
        helper.make_node("Conv", ["b", "depthwise.r"], ["c"], group=6, strides=[2, 2]),
        helper.make_node("ConvTranspose", ["c", "up"], ["d"], group=2, strides=[2, 2]),
        helper.make_node("Reshape", ["d", "flat.shape"], ["e"]),
        helper.make_node("Transpose", ["e"], ["f"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["f", "tokens"], ["g"]),
        helper.make_node("Tanh", ["g"], ["h"]),
        helper.make_node("Einsum", ["h", "heads"], ["i"], equation="btd,dhk->bthk"),
        helper.make_node("Reshape", ["i", "heads.shape"], ["j"]),
        helper.make_node("ReduceMean", ["j", "mean.axes"], ["k"], keepdims=0),
        helper.make_node("Gemm", ["k", "out", "bias"], ["y"]),
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    initializers += [
        numpy_helper.from_array(np.array(value, np.int64), name) for name, value in constants.items()
    ]
    graph = helper.make_graph(
        nodes,
        "awkward",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", n_classes])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return import_graph(model.SerializeToString(), name="awkward")
