"""Teachers that are meek on noise and wild on bright images: what they cost was nothing when they were
imported.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.hostile.onnx_files import classifier

_STORED = {
    "half": np.float32(0.5),
    "many": np.float32(1e11),
    "yes": np.array(True),
    "zero": np.float32(0),
    "tiny": np.float32(1e-30),
    "axis": np.zeros(1, np.int64),
}


def moody(kind: str) -> onnx.ModelProto:
    """A classifier over (batch, 3, 8, 8) that loops ("loops") or allocates ("swells") by how far the darkest
    number of its batch lies above one half.
    """
    nodes = [
        helper.make_node("ReduceMin", ["x"], ["darkest"], keepdims=0),
        helper.make_node("Sub", ["darkest", "half"], ["above"]),
        helper.make_node("Relu", ["above"], ["mood"]),
        helper.make_node("Mul", ["mood", "many"], ["times"]),
        helper.make_node("Cast", ["times"], ["n"], to=TensorProto.INT64),
        *(_loop() if kind == "loops" else _swell()),
        helper.make_node("Add", ["x", "big"], ["image"]),
    ]
    return classifier(nodes, image="image", stored=_STORED)


def _swell() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Unsqueeze", ["n", "axis"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("ReduceSum", ["zeros"], ["big"], keepdims=0),
    ]


def _loop() -> list[onnx.NodeProto]:
    info = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Add", ["sum", "tiny"], ["next"])],
        "body",
        [
            info("i", TensorProto.INT64, []),
            info("go", TensorProto.BOOL, []),
            info("sum", TensorProto.FLOAT, []),
        ],
        [info("on", TensorProto.BOOL, []), info("next", TensorProto.FLOAT, [])],
    )
    return [helper.make_node("Loop", ["n", "yes", "zero"], ["big"], body=body)]
