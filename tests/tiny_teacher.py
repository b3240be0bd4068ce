"""A small real classifier made node by node with onnx.helper: Conv, BatchNorm, depthwise Conv, Gemm; built in
milliseconds.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from engine.types import Kernel, Preprocessing, Teacher


def tiny_teacher(
    n_classes: int = 4,
    side: int = 16,
    seed: int = 0,
    output: Literal["logits", "probabilities"] = "logits",
    width: int = 8,
    gain: float = 3.0,
) -> Teacher:
    """Return a teacher over (batch, 3, side, side) images with four kernels, one of them depthwise; a larger
    gain makes it surer.
    """
    rng = np.random.default_rng(seed)
    shapes = {
        "stem": (width, 3, 3, 3),
        "depthwise": (width, 1, 3, 3),
        "point": (2 * width, width, 1, 1),
        "head": (n_classes, 2 * width),
    }
    weights = {
        name: (
            (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
            * (gain if name == "head" else 1)
        )
        for name, shape in shapes.items()
    }
    rest = {
        "bn.scale": rng.uniform(0.5, 1.5, width).astype(np.float32),
        "bn.bias": rng.standard_normal(width).astype(np.float32),
        "bn.mean": rng.standard_normal(width).astype(np.float32) * 0.1,
        "bn.var": rng.uniform(0.5, 1.5, width).astype(np.float32),
        "head.bias": rng.standard_normal(n_classes).astype(np.float32),
    }
    nodes = [
        helper.make_node("Conv", ["x", "stem"], ["a"], pads=[1] * 4),
        helper.make_node("BatchNormalization", ["a", "bn.scale", "bn.bias", "bn.mean", "bn.var"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "depthwise"], ["d"], pads=[1] * 4, group=width),
        helper.make_node("Conv", ["d", "point"], ["e"]),
        helper.make_node("Relu", ["e"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "head", "head.bias"], ["y" if output == "logits" else "z"], transB=1),
    ]
    if output == "probabilities":
        nodes.append(helper.make_node("Softmax", ["z"], ["y"], axis=-1))
    initializers = [numpy_helper.from_array(array, name) for name, array in {**weights, **rest}.items()]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, side, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", n_classes])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    kernels = tuple(
        Kernel(name, shape, (0,), "Gemm" if name == "head" else "Conv") for name, shape in shapes.items()
    )
    return Teacher(
        name="tiny",
        source="test",
        graph=model.SerializeToString(),
        kernels=kernels,
        weights=weights,
        preprocessing=Preprocessing(side, side, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.3)),
        class_names=tuple(f"class{k}" for k in range(n_classes)),
        output=output,
        float_bytes=4 * sum(array.size for array in (*weights.values(), *rest.values())),
    )
