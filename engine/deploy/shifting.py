"""Where a layer's output can be shifted, channel by channel: a constant of its own behind it, or a bias it is
given.

Knows graphs. How far a channel is to be shifted is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from engine.types import Floats

_FOLLOWING = 3  # nodes that are looked at behind a layer: a factor, then what is added


@dataclass(frozen=True, eq=False)
class Constant:
    """Stored numbers, one a channel, in whose place a shift of the layer's output counts `factor` times:
    1 for a bias, -1 for a BatchNorm's mean, a scale if the output is scaled first.
    """

    name: str
    values: NDArray[np.float32]
    factor: NDArray[np.float32]

    def shifted(self, shift: Floats) -> NDArray[np.float32]:
        """Return the numbers that shift the layer's output by `shift` (channels,)."""
        moved = np.asarray(shift, np.float32) * self.factor.reshape(-1)
        return (self.values + moved.reshape(self.values.shape)).astype(np.float32)


def constants_behind(graph: onnx.GraphProto) -> dict[str, Constant]:
    """Return, by a layer's output, the constant of its own that can take a shift up: its bias, the mean of
    the BatchNorm behind it, or what is added next, scaled first or not. A constant that several nodes read is
    left alone.
    """
    finder = _Finder(graph)
    found = {
        node.output[0]: finder.constant(node)
        for node in graph.node
        if node.op_type in ("Conv", "Gemm", "MatMul")
    }
    return {output: constant for output, constant in found.items() if constant is not None}


class _Finder:
    def __init__(self, graph: onnx.GraphProto) -> None:
        self.stored = {tensor.name: tensor for tensor in graph.initializer}
        self.reads: Counter[str] = Counter(name for node in graph.node for name in node.input)
        self.reads.update(item.name for item in graph.output)
        self.reader = {name: node for node in graph.node for name in node.input}

    def constant(self, layer: onnx.NodeProto) -> Constant | None:
        """Return what can take a shift of this layer's output up."""
        one = np.ones(1, np.float32)
        if layer.op_type != "MatMul" and len(layer.input) > 2 and layer.input[2]:
            return self._own(layer.input[2], one)
        axis = -3 if layer.op_type == "Conv" else -1
        value, factor = layer.output[0], one
        for _ in range(_FOLLOWING):
            node = self.reader.get(value)
            if node is None or self.reads[value] != 1:
                return None
            if node.op_type == "BatchNormalization":
                return self._own(node.input[3], -factor)
            if node.op_type not in ("Add", "Mul"):
                return None
            other = node.input[1] if node.input[0] == value else node.input[0]
            if not self._is_per_channel(other, axis):
                return None
            if node.op_type == "Add":
                return self._own(other, factor)
            value, factor = node.output[0], factor * self._numbers(other).reshape(-1)
        return None

    def _numbers(self, name: str) -> NDArray[np.float32]:
        return np.asarray(numpy_helper.to_array(self.stored[name]), np.float32)

    def _is_per_channel(self, name: str, axis: int) -> bool:
        """A stored value with one number for each index of the channel axis, counted from the end."""
        if name not in self.stored:
            return False
        dims = tuple(self.stored[name].dims)
        return len(dims) >= -axis and all(size == 1 for i, size in enumerate(dims) if i - len(dims) != axis)

    def _own(self, name: str, factor: NDArray[np.float32]) -> Constant | None:
        if name not in self.stored or self.reads[name] != 1:
            return None
        return Constant(name, self._numbers(name), factor)


def give_biases(graph: onnx.GraphProto, shifts: Mapping[str, Floats]) -> int:
    """Give convolutions that have no constant of their own a bias, by their output; return the bytes that
    adds. Changes `graph`.
    """
    stored = {tensor.name: tensor for tensor in graph.initializer}
    added = 0
    for node in graph.node:
        if node.op_type != "Conv" or node.output[0] not in shifts:
            continue
        bias = np.asarray(shifts[node.output[0]], np.float32)
        if len(node.input) > 2 and node.input[2]:  # one that it shares
            bias = bias + numpy_helper.to_array(stored[node.input[2]])
        name = f"{node.output[0]}:bias"
        graph.initializer.append(numpy_helper.from_array(bias.astype(np.float32), name))
        del node.input[2:]
        node.input.append(name)
        added += bias.size * 4
    return added
