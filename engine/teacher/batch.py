"""Open the batch size of an ONNX graph that was written down for batches of one size.

Knows where exporters leave the size as a number: in the shapes that some operators take. Whether the opened
graph keeps its promise is checked by running it (`engine.teacher.agreement`).
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import numpy_helper

from engine.teacher.kernels import GraphView

# A prime that hardly occurs among a network's own sizes: its multiples in a traced graph are the batch.
TRACED_BATCH = 97
# Operators that take a shape (or repeats) as an input, and which one it is.
_SHAPE_INPUTS = {"Reshape": 1, "Expand": 1, "Tile": 1, "ConstantOfShape": 0, "Resize": 3}
_BATCH_SIZE = "traced_batch_size"


def open_reshapes(graph: onnx.GraphProto, batch: int) -> None:
    """Open a file's batch size inside reshapes: exporters write it first when they saw one batch only."""
    view = GraphView(graph)
    for index, node in enumerate(graph.node):
        if node.op_type != "Reshape" or node.input[0] in view.fixed:
            continue
        sizes = view.integers(node.input[1])
        if sizes and len(sizes) > 1 and sizes[0] == batch and 0 not in sizes:
            del node.attribute[:]  # Reshape has one attribute, which gives 0 another meaning
            freed = (0 if -1 in sizes[1:] else -1, *sizes[1:])  # 0 keeps the size, -1 infers it
            node.input[1] = _stored(graph, f"{node.input[1]}:freed{index}", freed)


def open_traced_batch(graph: onnx.GraphProto) -> None:
    """Open the batch size of a graph traced with TRACED_BATCH images, wherever an operator takes a shape.

    One multiple of the batch in a reshape is left to be inferred; any other shape is computed from the size
    of the first input.
    """
    view = GraphView(graph)
    nodes: list[onnx.NodeProto] = []
    for index, node in enumerate(graph.node):
        sizes = _batched_sizes(view, node)
        if sizes is not None:
            label = f"{node.input[_SHAPE_INPUTS[node.op_type]]}:opened{index}"
            if node.op_type == "Reshape" and sum(map(_is_batched, sizes)) == 1 and min(sizes) > 0:
                shape = _stored(graph, label, [-1 if _is_batched(size) else size for size in sizes])
            else:
                shape = label
                nodes += _computed(graph, label, sizes)
            node.input[_SHAPE_INPUTS[node.op_type]] = shape
        nodes.append(node)
    if any(_BATCH_SIZE in node.input for node in nodes):
        shape_of = onnx.helper.make_node("Shape", [graph.input[0].name], [_BATCH_SIZE], start=0, end=1)
        nodes.insert(0, shape_of)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _is_batched(size: int) -> bool:
    return size > 0 and size % TRACED_BATCH == 0


def _batched_sizes(view: GraphView, node: onnx.NodeProto) -> tuple[int, ...] | None:
    """The stored shape that a node takes, if the batch stands in it."""
    place = _SHAPE_INPUTS.get(node.op_type)
    if place is None or len(node.input) <= place or not node.input[place]:
        return None
    if node.op_type == "Reshape" and node.input[0] in view.fixed:
        return None  # a weight has no batch
    sizes = view.integers(node.input[place])
    return sizes if sizes and any(map(_is_batched, sizes)) else None


def _computed(graph: onnx.GraphProto, label: str, sizes: tuple[int, ...]) -> list[onnx.NodeProto]:
    """Nodes that make the shape `label` at run time: the batch's multiples computed, the rest as it was."""
    nodes, pieces = [], []
    for i, size in enumerate(sizes):
        piece = f"{label}:{i}"
        if not _is_batched(size):
            piece = _stored(graph, piece, [size])
        elif size == TRACED_BATCH:
            piece = _BATCH_SIZE
        else:
            factor = _stored(graph, f"{piece}:factor", [size // TRACED_BATCH])
            nodes.append(onnx.helper.make_node("Mul", [_BATCH_SIZE, factor], [piece]))
        pieces.append(piece)
    return [*nodes, onnx.helper.make_node("Concat", pieces, [label], axis=0)]


def _stored(graph: onnx.GraphProto, name: str, sizes: list[int] | tuple[int, ...]) -> str:
    graph.initializer.append(numpy_helper.from_array(np.array(sizes, np.int64), name))
    return name
