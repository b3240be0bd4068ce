"""How large a graph may be before anything works on it: nodes once its functions are unfolded, tensors,
batch.

Knows counts only. What allocates or loops when it runs is bounded by `engine.guard`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

import onnx

from engine.types import UserError

# The largest exported classifiers have a few thousand of each; tools that work on graphs need quadratic time.
MAX_NODES = 50_000
MAX_TENSORS = 50_000
MAX_BATCH = 4096  # a file made for one batch size is run at that size
_REMEDY = "Export the model again, simplified."

_Key = tuple[str, str]


def require_bounded(model: onnx.ModelProto) -> None:
    """Raise UserError if the model has more nodes or tensors than any classifier, nested graphs and unfolded
    functions included, or two tensors of one name.
    """
    sizes = _function_sizes(model)
    n_nodes = _count(model.graph.node, sizes)
    if n_nodes > MAX_NODES:
        raise UserError(
            f"the model has more than {MAX_NODES:,} operations once its functions are unfolded, beyond any"
            " classifier's.",
            _REMEDY,
        )
    n_tensors = len(model.graph.initializer) + len(model.graph.sparse_initializer)
    if n_tensors > MAX_TENSORS:
        raise UserError(
            f"the model stores {n_tensors:,} tensors; a classifier has up to {MAX_TENSORS:,}.", _REMEDY
        )
    names = Counter(tensor.name for tensor in model.graph.initializer)
    names.update(tensor.values.name for tensor in model.graph.sparse_initializer)
    repeated = next((name for name, count in names.items() if count > 1), None)
    if repeated is not None:  # tools disagree on which of them counts
        raise UserError(f"the model stores two tensors called {repeated[:80]!r}.", _REMEDY)


def require_batch(size: int | None) -> None:
    """Raise UserError for a file that insists on a batch size nobody can run."""
    if size is not None and size > MAX_BATCH:
        raise UserError(
            f"the file was made for batches of exactly {size:,} images; up to {MAX_BATCH:,} are run.",
            "Export it with a dynamic batch size.",
        )


def _function_sizes(model: onnx.ModelProto) -> Mapping[_Key, int]:
    """Nodes of each function once unfolded, capped just above the limit: nested functions grow exponentially.

    Raises UserError if functions call each other in a circle.
    """
    functions = {(function.domain, function.name): function for function in model.functions}
    calls = {
        key: {(node.domain, node.op_type) for node in every_node(function.node)} & functions.keys()
        for key, function in functions.items()
    }
    sizes: dict[_Key, int] = {}
    try:
        for key in TopologicalSorter(calls).static_order():  # a function after those it calls
            sizes[key] = _count(functions[key].node, sizes)
    except CycleError:
        raise UserError("the model's functions call each other in a circle.", _REMEDY) from None
    return sizes


def _count(nodes: Iterable[onnx.NodeProto], sizes: Mapping[_Key, int]) -> int:
    total = 0
    for node in every_node(nodes):
        total += sizes.get((node.domain, node.op_type), 1)
        if total > MAX_NODES:
            break
    return total


def every_node(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Each node, and those of the graphs it holds."""
    for node in nodes:
        yield node
        for item in node.attribute:
            for graph in [item.g, *item.graphs] if item.HasField("g") else item.graphs:
                yield from every_node(graph.node)
