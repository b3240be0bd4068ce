"""Every tensor an ONNX model stores, wherever it stores it, and the bytes some of them keep in other files.

Knows where a model can hold a tensor and where its files may lie: in the model's own folder, nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import onnx

from engine.types import UserError


def every_tensor(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Yield each stored tensor: initializers, sparse ones, attributes of nodes and functions, and those of
    nested and training graphs.

    The depth is bounded: protobuf refuses to parse messages nested beyond 100.
    """
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_nodes(function.node)
        yield from _of_attributes(function.attribute_proto)
    for training in model.training_info:
        yield from _of_graph(training.initialization)
        yield from _of_graph(training.algorithm)


def _of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    yield from _of_sparse(graph.sparse_initializer)
    yield from _of_nodes(graph.node)


def _of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    # Read by what is there, not by the stated type: a runtime may look at either.
    for item in attributes:
        if item.HasField("t"):
            yield item.t
        yield from item.tensors
        if item.HasField("sparse_tensor"):
            yield from _of_sparse([item.sparse_tensor])
        yield from _of_sparse(item.sparse_tensors)
        for graph in chain([item.g] if item.HasField("g") else [], item.graphs):
            yield from _of_graph(graph)


def _of_sparse(tensors: Iterable[onnx.SparseTensorProto]) -> Iterator[onnx.TensorProto]:
    for tensor in tensors:
        if tensor.HasField("values"):
            yield tensor.values
        if tensor.HasField("indices"):
            yield tensor.indices


def is_outside(tensor: onnx.TensorProto) -> bool:
    """Whether the tensor's values are kept in another file."""
    return bool(tensor.data_location != onnx.TensorProto.DEFAULT)


def load_outside_data(model: onnx.ModelProto, folder: Path | None, max_bytes: int) -> None:
    """Read tensors stored beside the model into it, from regular files inside its folder only.

    Raises UserError if there is no folder, or a tensor reaches outside of it, is missing, or exceeds
    `max_bytes`.
    """
    budget = max_bytes
    for tensor in every_tensor(model):
        if not is_outside(tensor):
            continue
        if folder is None:
            raise UserError(
                "the model keeps its weights in a second file.",
                "Give the path of the .onnx file, with that file beside it.",
            )
        content = _outside_bytes(tensor, folder, budget)
        budget -= len(content)
        tensor.raw_data = content
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _outside_bytes(tensor: onnx.TensorProto, folder: Path, budget: int) -> bytes:
    entry = {item.key: item.value for item in tensor.external_data}
    location = entry.get("location", "")
    path = _inside(folder, location)
    if path is None:
        raise UserError(
            f"the weight {tensor.name!r} points outside the model's folder ({location[:80]!r}).",
            "Put the data file beside the .onnx file.",
        )
    if not path.is_file():
        raise UserError(f"the data file {location[:80]!r} is missing.", "Put it beside the .onnx file.")
    size = path.stat().st_size
    start = _number(entry.get("offset", "0"))
    stop = start + _number(entry["length"]) if entry.get("length") else size
    if not 0 <= start <= stop <= size:
        raise UserError(
            f"the data file {location[:80]!r} is too short for the weight {tensor.name!r}.", "Copy it again."
        )
    if stop - start > budget:
        raise UserError(
            "the model's weights exceed the size limit of a teacher (2 GB unless stated otherwise)."
        )
    with path.open("rb") as file:
        file.seek(start)
        content: bytes = file.read(stop - start)
    return content


def _inside(folder: Path, location: str) -> Path | None:
    """The file that `location` names if it lies in `folder`, links followed; None otherwise."""
    if not location or "\0" in location or len(location) > 1000:
        return None
    try:
        path = (folder / location).resolve()
    except (OSError, RuntimeError):  # a cycle of links
        return None
    return path if path.is_relative_to(folder.resolve()) else None


def _number(text: str) -> int:
    """A size in bytes, or one that fits nowhere."""
    return int(text) if text.isdecimal() and len(text) < 20 else -(1 << 62)
