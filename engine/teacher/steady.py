"""Does a graph do the same work for every image? Then it may run beside us; otherwise only behind limits.

Knows operators. A graph made of these alone cannot loop, branch or make a tensor whose size depends on what
an image shows, so what it cost on random images under the guard is what it costs on any.
"""

from __future__ import annotations

import onnx

_STEADY = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Exp", "Log", "Erf", "Neg", "Abs", "Max", "Min", "Mean"),
        *("Relu", "LeakyRelu", "PRelu", "Elu", "Selu", "Gelu", "Sigmoid", "HardSigmoid", "HardSwish", "Mish"),
        *("Tanh", "Clip", "Softplus", "Softmax", "LogSoftmax", "BatchNormalization", "LayerNormalization"),
        *("InstanceNormalization", "GroupNormalization", "LRN", "Dropout", "Identity", "Cast", "Constant"),
        *("Conv", "Gemm", "MatMul", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"),
        *("Flatten", "Transpose", "Concat", "QuantizeLinear", "DequantizeLinear"),
    )
)
# Their other inputs say axes, places or a shape: steady if those are stored in the file.
_TOLD = frozenset(
    ("Reshape", "Slice", "Split", "Squeeze", "Unsqueeze", "Gather", "ReduceMean", "ReduceSum", "ReduceMax")
)


def is_steady(graph: bytes) -> bool:
    """Whether every operator of a model's graph does the same work for every image of one size."""
    model = onnx.ModelProto.FromString(graph)
    if model.functions:
        return False
    stored = {tensor.name for tensor in model.graph.initializer} | {""}
    for node in model.graph.node:
        if node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type == "Constant":
            stored.update(node.output)
        told = node.op_type in _TOLD and stored.issuperset(node.input[1:])
        if not told and node.op_type not in _STEADY:
            return False
    return True
