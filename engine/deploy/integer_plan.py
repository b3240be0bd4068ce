"""Which nodes of a folded graph can run on integers in onnxruntime, and which values then carry a range.

Knows the operators that have integer kernels and how they join. Knows nothing of ranges, weights' codes or
images.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

from engine.teacher.kernels import attribute

KERNEL_OPS = ("Conv", "Gemm", "MatMul")
# computed on integers when everything they read is: a float value between two integer ones gains nothing
_JOINING = ("Add", "Mul", "Concat", "Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool")
# their output has the very codes of their input, so it shares its scale
_MOVING = ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "MaxPool")
_CLIPPING = ("Relu", "Clip")  # vanish: the range of what follows cannot leave their bounds
_FLOATS_OUT = ("Gemm", "MatMul")  # have an integer kernel that returns floats
# moves and bookkeeping cost nothing worth reporting
_UNCOUNTED = (*_MOVING, "Shape", "Slice", "Gather", "Constant", "Cast", "Expand", "Identity", "Split")


@dataclass(frozen=True)
class IntegerPlan:
    """What becomes integer in a graph.

    `kernels` are the indices of the nodes that multiply with stored weights, `others` of those that only join
    or move integers. `ranged` are the values that need a range, each with the value whose range it takes
    (itself, unless it was only moved). `kept_float` counts operators that stay float, by name.
    """

    kernels: tuple[int, ...]
    others: tuple[int, ...]
    ranged: Mapping[str, str]
    kept_float: Mapping[str, int]
    n_layers: int  # nodes with stored weights, integer or not

    @property
    def measured(self) -> tuple[str, ...]:
        """The values whose ranges have to be collected."""
        return tuple(dict.fromkeys(self.ranged.values()))


def make_plan(graph: onnx.GraphProto, *, float_ends: bool) -> IntegerPlan:
    """Decide, in graph order, which nodes run on integers; `float_ends` keeps the first and the last layer
    float.
    """
    return _Planner(graph, float_ends).plan()


class _Planner:
    def __init__(self, graph: onnx.GraphProto, float_ends: bool) -> None:
        self.graph = graph
        self.stored = {tensor.name: tensor for tensor in graph.initializer}
        layers = [index for index, node in enumerate(graph.node) if self._is_layer(node)]
        self.layers = layers
        self.allowed = set(layers[1:-1] if float_ends else layers)
        self.integer: dict[str, str] = {}  # value -> the value whose range it takes
        self.kernels: list[int] = []
        self.others: list[int] = []
        self.needed: set[str] = set()
        self.readers: Counter[str] = Counter(name for node in graph.node for name in node.input)

    def plan(self) -> IntegerPlan:
        for index, node in enumerate(self.graph.node):
            self._place(index, node)
        self._trim()
        used = {*self.kernels, *self.others}
        kept = Counter(
            node.op_type
            for index, node in enumerate(self.graph.node)
            if index not in used and node.op_type not in _UNCOUNTED and not self._is_constant(node)
        )
        ranged = {value: self.integer.get(value, value) for value in sorted(self.needed)}
        return IntegerPlan(
            kernels=tuple(self.kernels),
            others=tuple(self.others),
            ranged=ranged,
            kept_float=dict(sorted(kept.items())),
            n_layers=len(self.layers),
        )

    def _is_constant(self, node: onnx.NodeProto) -> bool:
        return all(name in self.stored for name in node.input if name)

    def _is_layer(self, node: onnx.NodeProto) -> bool:
        """A Conv, or a product with a stored matrix on its right, biased or not."""
        if node.op_type not in KERNEL_OPS or node.input[0] in self.stored:
            return False
        weight = self.stored.get(node.input[1])
        if weight is None or weight.data_type != onnx.TensorProto.FLOAT:
            return False
        if len(node.input) > 2 and node.input[2] and node.input[2] not in self.stored:
            return False
        if node.op_type == "Conv":
            return len(weight.dims) >= 3
        return len(weight.dims) == 2 and _plain_gemm(node, self.stored)

    def _place(self, index: int, node: onnx.NodeProto) -> None:
        if index in self.allowed:
            self.kernels.append(index)
            self.needed.add(node.input[0])
            self._emit(node.output[0], node.output[0])
            return
        moving = [name for name in node.input if name and name not in self.stored]
        if not moving or not all(name in self.integer for name in moving):
            return
        if node.op_type in _MOVING and len(node.output) == 1:
            self.others.append(index)
            self._emit(node.output[0], self.integer[moving[0]])
        elif (node.op_type in _CLIPPING and self._absorbs(node)) or (
            node.op_type in _JOINING and len(moving) == len([name for name in node.input if name])
        ):
            self.others.append(index)
            self._emit(node.output[0], node.output[0])

    def _emit(self, value: str, origin: str) -> None:
        self.integer[value] = origin

    def _absorbs(self, node: onnx.NodeProto) -> bool:
        """A Clip vanishes only if it is alone on its input and its bounds are stored: else it stays."""
        if self.readers[node.input[0]] != 1:
            return False
        return all(name in self.stored for name in node.input[1:] if name)

    def _trim(self) -> None:
        """Find the values that need a range: what integer nodes read, and what they write unless a Relu takes
        it over or a product may return floats.
        """
        readers: dict[str, list[int]] = {}
        for index, node in enumerate(self.graph.node):
            for name in node.input:
                readers.setdefault(name, []).append(index)
        others = set(self.others)
        used = {*self.kernels, *others}
        clipping = {i for i in others if self.graph.node[i].op_type in _CLIPPING}
        for index in used:
            node = self.graph.node[index]
            if index not in clipping:
                self.needed.update(name for name in node.input if name in self.integer)
        for index in used:
            node, value = self.graph.node[index], self.graph.node[index].output[0]
            taken_over = any(reader in clipping for reader in readers.get(value, ()))
            returns_floats = node.op_type in _FLOATS_OUT and not used & set(readers.get(value, ()))
            if not taken_over and not returns_floats:
                self.needed.add(value)
        # only the clipped value is ever an integer
        self.needed -= {self.graph.node[i].input[0] for i in clipping}


def _plain_gemm(node: onnx.NodeProto, stored: Mapping[str, onnx.TensorProto]) -> bool:
    if node.op_type != "Gemm":
        return True
    plain = attribute(node, "alpha", 1.0) == attribute(node, "beta", 1.0) == 1.0
    return plain and not attribute(node, "transA", 0) and _flat_bias(node, stored)


def _flat_bias(node: onnx.NodeProto, stored: Mapping[str, onnx.TensorProto]) -> bool:
    if len(node.input) < 3 or not node.input[2]:
        return True
    return np.asarray(numpy_helper.to_array(stored[node.input[2]])).ndim == 1
