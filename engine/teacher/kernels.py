"""Find the quantizable kernels of an ONNX graph and the axes of each that index output channels.

Knows operators and how a weight reaches them. Knows nothing of frameworks, files or quantization.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from engine.types import Kernel

# Operators that only move a weight's values around: the values are still the kernel, so it can be quantized
# behind them.
MOVES = ("Identity", "Transpose", "Reshape", "Squeeze", "Unsqueeze")
_CANDIDATE_SLOTS = {"Conv": (1,), "ConvTranspose": (1,), "Gemm": (1, 0), "MatMul": (1, 0), "Einsum": (1, 0)}


@dataclass(frozen=True)
class Slot:
    """One place where an operator takes a weight: the node, which of its inputs, and the value's name
    there.
    """

    node: onnx.NodeProto
    index: int

    @property
    def value(self) -> str:
        return str(self.node.input[self.index])


class GraphView:
    """Lookups over one graph: who produces a value, which values are stored, which depend on stored values
    only.
    """

    def __init__(self, graph: onnx.GraphProto) -> None:
        self.graph = graph
        self.initializers = {tensor.name: tensor for tensor in graph.initializer}
        self.producers = {name: node for node in graph.node for name in node.output if name}
        self.fixed = set(self.initializers)
        for node in graph.node:
            stored = node.op_type == "Constant" or (
                node.input and all(name in self.fixed for name in node.input if name)
            )
            # A node with a body (If, Loop) may read values that are not among its inputs.
            if stored and not any(item.HasField("g") or item.graphs for item in node.attribute):
                self.fixed.update(name for name in node.output if name)

    def integers(self, name: str) -> tuple[int, ...] | None:
        """The stored integers called `name`, or None if the graph computes them."""
        if name in self.initializers:
            return tuple(int(i) for i in numpy_helper.to_array(self.initializers[name]).ravel())
        node = self.producers.get(name)
        if node is None or node.op_type != "Constant":
            return None
        value = onnx.helper.get_attribute_value(node.attribute[0])
        array = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
        return tuple(int(i) for i in array.ravel())


def attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    """An attribute's value, or the operator's default when the node does not state it."""
    for candidate in node.attribute:
        if candidate.name == name:
            return onnx.helper.get_attribute_value(candidate)
    return default


def weight_slots(view: GraphView) -> Iterator[Slot]:
    """Yield, in graph order, every operator input that takes a weight: fixed values beside a computed
    partner.
    """
    for node in view.graph.node:
        if node.domain not in ("", "ai.onnx") or (node.op_type == "Einsum" and len(node.input) != 2):
            continue
        for index in _CANDIDATE_SLOTS.get(node.op_type, ()):
            partner = node.input[1 - index]
            if node.input[index] in view.fixed and partner not in view.fixed:
                yield Slot(node, index)


def _origin(view: GraphView, value: str) -> tuple[str, list[onnx.NodeProto]] | None:
    """The initializer behind `value` and the moves between them, first move first; None if anything else
    intervenes.
    """
    moves: list[onnx.NodeProto] = []
    while value not in view.initializers:
        node = view.producers.get(value)
        if node is None or node.op_type not in MOVES:
            return None
        moves.append(node)
        value = node.input[0]
    return value, moves[::-1]


def _moved_shape(view: GraphView, node: onnx.NodeProto, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape after one move, or None when the graph computes it at run time."""
    if node.op_type == "Identity":
        return shape
    if node.op_type == "Transpose":
        perm = attribute(node, "perm", tuple(range(len(shape)))[::-1])
        return tuple(shape[axis] for axis in perm)
    arguments = view.integers(node.input[1]) if len(node.input) > 1 and node.input[1] else ()
    if arguments is None:
        return None
    if node.op_type == "Reshape":
        target = [shape[i] if size == 0 else size for i, size in enumerate(arguments)]
        known = math.prod(size for size in target if size != -1)
        return tuple(math.prod(shape) // known if size == -1 else size for size in target)
    probe = np.broadcast_to(np.int8(0), shape)
    if node.op_type == "Squeeze":
        return tuple(np.squeeze(probe, arguments or None).shape)
    return tuple(np.expand_dims(probe, arguments).shape)


def _channel_ids(slot: Slot, shape: tuple[int, ...]) -> NDArray[np.int32] | None:
    """For every element of the weight as the operator sees it, the number of the output channel it belongs
    to.
    """
    node, rank = slot.node, len(shape)
    # int32 halves the memory of a large dense kernel whose numbers have to be reshaped.
    index = [
        np.arange(size, dtype=np.int32).reshape((size,) + (1,) * (rank - axis - 1))
        for axis, size in enumerate(shape)
    ]
    if node.op_type == "ConvTranspose":
        group_size = shape[0] // int(attribute(node, "group", 1))
        return np.broadcast_to(index[0] // group_size * shape[1] + index[1], shape)
    if node.op_type == "Conv":
        axes: tuple[int, ...] = (0,)
    elif node.op_type == "Gemm":
        flipped = bool(attribute(node, "transB" if slot.index else "transA", 0))
        axes = (0,) if (slot.index == 1) == flipped else (1,)
    elif node.op_type == "MatMul":
        contracted = rank - 2 if slot.index == 1 else rank - 1
        axes = tuple(axis for axis in range(rank) if axis != contracted)
    else:
        terms, _, result = attribute(node, "equation", b"").decode().replace(" ", "").partition("->")
        letters = terms.split(",")[slot.index]
        if not result or "." in letters:
            return None
        axes = tuple(axis for axis, letter in enumerate(letters) if letter in result)
    ids: NDArray[np.int32] = np.zeros((1,) * rank, np.int32)
    for axis in axes:
        ids = ids * shape[axis] + index[axis]
    return np.broadcast_to(ids, shape)


@dataclass(frozen=True, eq=False)
class Way:
    """How a stored tensor reaches an operator: the moves, first one first, and the shape before each of them
    and after the last.
    """

    name: str
    moves: list[onnx.NodeProto]
    shapes: list[tuple[int, ...]]

    def back(self, array: NDArray[Any]) -> NDArray[Any]:
        """Lay an array of the operator's shape out as the stored tensor is."""
        for node, shape in zip(self.moves[::-1], self.shapes[-2::-1], strict=True):
            if node.op_type == "Transpose":
                perm = attribute(node, "perm", tuple(range(len(shape)))[::-1])
                array = array.transpose(np.argsort(perm))
            else:
                array = array.reshape(shape)
        return array


def way_to(view: GraphView, slot: Slot) -> Way | None:
    """The way from the initializer behind a weight slot, or None if anything but moves of known shape is
    between.
    """
    origin = _origin(view, slot.value)
    if origin is None:
        return None
    name, moves = origin
    shapes: list[tuple[int, ...]] = [tuple(view.initializers[name].dims)]
    for node in moves:
        moved = _moved_shape(view, node, shapes[-1])
        if moved is None:
            return None
        shapes.append(moved)
    return Way(name, moves, shapes)


def kernel_at(view: GraphView, slot: Slot) -> Kernel | None:
    """The kernel behind a weight slot, or None if its channels are not whole axes of one float32
    initializer.
    """
    way = way_to(view, slot)
    if way is None:
        return None
    tensor, shape = view.initializers[way.name], way.shapes[0]
    if tensor.data_type != onnx.TensorProto.FLOAT or len(shape) < 2:
        return None
    if slot.node.op_type == "ConvTranspose" and (groups := int(attribute(slot.node, "group", 1))) > 1:
        return (
            Kernel(name=way.name, shape=shape, axes=(1,), op="ConvTranspose", groups=groups)
            if not way.moves
            else None
        )
    axes = _axes_behind(slot, way)
    return None if axes is None else Kernel(name=way.name, shape=shape, axes=axes, op=slot.node.op_type)


def _axes_behind(slot: Slot, way: Way) -> tuple[int, ...] | None:
    """Carry the channel numbers back through the moves; the axes along which they change index the output
    channels.
    """
    numbers, shape = _channel_ids(slot, way.shapes[-1]), way.shapes[0]
    if numbers is None:
        return None
    n_channels = int(numbers.max()) + 1 if numbers.size else 0
    ids = way.back(numbers)
    axes = tuple(axis for axis in range(ids.ndim) if (np.take(ids, [0], axis) != ids).any())
    if not axes:  # a single output channel: its axis has length one and cannot vary
        axes = tuple(axis for axis, size in enumerate(shape) if size == 1)[:1]
    return axes if axes and math.prod(shape[axis] for axis in axes) == n_channels else None


def find_kernels(graph: onnx.GraphProto) -> tuple[Kernel, ...]:
    """List the quantizable kernels of `graph` in forward order, shared initializers once.

    A kernel is the float32 initializer that a Conv, ConvTranspose, Gemm, MatMul or Einsum takes as its
    weight, directly or through operators that only move values. `axes` refer to the initializer's own layout.
    """
    view = GraphView(graph)
    found: dict[str, Kernel] = {}
    for slot in weight_slots(view):
        kernel = kernel_at(view, slot)
        if kernel is not None:
            found.setdefault(kernel.name, kernel)
    return tuple(found.values())


def find_constant_kernels(graph: onnx.GraphProto) -> tuple[str, ...]:
    """Names of the weights that are multiplied with other stored values only, never with an image: those of a
    network that computes position biases, say. Their product is a constant, so they are no kernels.
    """
    view = GraphView(graph)
    kernels = {slot.value for slot in weight_slots(view)}
    found: dict[str, None] = {}
    for node in graph.node:
        if node.op_type not in _CANDIDATE_SLOTS or node.output[0] not in view.fixed:
            continue
        for index in _CANDIDATE_SLOTS[node.op_type]:
            origin = _origin(view, node.input[index])
            if origin is not None and _is_matrix(view, origin[0]) and origin[0] not in kernels:
                found.setdefault(origin[0])
                break  # the other factor is the constant that it is applied to
    return tuple(found)


def _is_matrix(view: GraphView, name: str) -> bool:
    tensor = view.initializers[name]
    return tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) >= 2
