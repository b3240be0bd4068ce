"""Outside data: one walk finds every tensor of a model, wherever a graph can hold one, and one rule confines
it.

The oracle for "every" is protobuf's own reflection over all fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.teacher.importers.onnx import import_graph
from engine.teacher.outside_data import every_tensor, load_outside_data
from engine.types import UserError
from tests.hostile.onnx_files import classifier

SECRET = b"canary " * 64


def outside(name: str = "t", location: str = "secret.bin") -> onnx.TensorProto:
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2, 2])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    tensor.external_data.add(key="length", value="16")
    return tensor


def sparse(location: str) -> onnx.SparseTensorProto:
    return onnx.SparseTensorProto(
        values=outside("v", location),
        indices=numpy_helper.from_array(np.zeros(1, np.int64), "i"),
        dims=[2, 2],
    )


def constant(location: str, **attribute: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["c"], **(attribute or {"value": outside("t", location)}))


def graph(location: str) -> onnx.GraphProto:
    output = helper.make_tensor_value_info("c", TensorProto.FLOAT, [2, 2])
    return helper.make_graph([constant(location)], "inner", [], [output])


def in_initializer(model: onnx.ModelProto, location: str) -> None:
    model.graph.initializer.append(outside("t", location))


def in_sparse_initializer(model: onnx.ModelProto, location: str) -> None:
    model.graph.sparse_initializer.append(sparse(location))


def in_constant(model: onnx.ModelProto, location: str) -> None:
    model.graph.node.insert(0, constant(location))


def in_sparse_constant(model: onnx.ModelProto, location: str) -> None:
    model.graph.node.insert(0, constant(location, sparse_value=sparse(location)))


def in_list_attribute(model: onnx.ModelProto, location: str) -> None:
    node = helper.make_node("Relu", ["x"], ["unused"])
    node.attribute.append(helper.make_attribute("more", [outside("t", location)]))
    model.graph.node.insert(0, node)


def in_sparse_list_attribute(model: onnx.ModelProto, location: str) -> None:
    node = helper.make_node("Relu", ["x"], ["unused"])
    node.attribute.append(helper.make_attribute("more", [sparse(location)]))
    model.graph.node.insert(0, node)


def in_subgraph(model: onnx.ModelProto, location: str) -> None:
    node = helper.make_node("If", ["x"], ["c"], then_branch=graph(location), else_branch=graph(location))
    model.graph.node.insert(0, node)


def in_subgraph_list(model: onnx.ModelProto, location: str) -> None:
    node = helper.make_node("Relu", ["x"], ["unused"])
    node.attribute.append(helper.make_attribute("graphs", [graph(location)]))
    model.graph.node.insert(0, node)


def in_subgraph_initializer(model: onnx.ModelProto, location: str) -> None:
    inner = graph("inside.bin")
    inner.initializer.append(outside("t", location))
    model.graph.node.insert(0, helper.make_node("If", ["x"], ["c"], then_branch=inner, else_branch=inner))


def in_function(model: onnx.ModelProto, location: str) -> None:
    opset = [helper.make_opsetid("", 21)]
    model.functions.append(helper.make_function("own", "f", ["a"], ["c"], [constant(location)], opset))


def in_function_default(model: onnx.ModelProto, location: str) -> None:
    function = helper.make_function("own", "f", ["a"], ["a"], [], [helper.make_opsetid("", 21)])
    function.attribute_proto.append(helper.make_attribute("value", outside("t", location)))
    model.functions.append(function)


def in_training(model: onnx.ModelProto, location: str) -> None:
    model.training_info.add().algorithm.CopyFrom(graph(location))


PLACES: list[Callable[[onnx.ModelProto, str], None]] = [
    *(in_initializer, in_sparse_initializer, in_constant, in_sparse_constant, in_list_attribute),
    *(in_sparse_list_attribute, in_subgraph, in_subgraph_list, in_subgraph_initializer),
    *(in_function, in_function_default, in_training),
]
LOCATIONS = [
    *("../secret.bin", "./../secret.bin", "sub/../../secret.bin", "link.bin", "folder/secret.bin"),
    *("", ".", "..", "a\0b", "/dev/zero", "/proc/self/environ", "*/_ORT_MEM_ADDR_/*", "x" * 5000),
]


def by_reflection(message: Any) -> Iterator[TensorProto]:
    """Every TensorProto below a message, found without knowing where to look."""
    if isinstance(message, TensorProto):
        yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            repeated = not isinstance(value, onnx.ModelProto) and hasattr(value, "append")
            for item in value if repeated else [value]:
                yield from by_reflection(item)


def everywhere() -> onnx.ModelProto:
    model = classifier()
    for number, place in enumerate(PLACES):
        place(model, f"file{number}.bin")
    return model


def test_the_walk_finds_what_reflection_finds() -> None:
    model = everywhere()
    found, wanted = list(every_tensor(model)), list(by_reflection(model))
    key = TensorProto.SerializeToString
    assert sorted(map(key, found)) == sorted(map(key, wanted))
    assert len({entry.value for t in found for entry in t.external_data if entry.key == "location"}) > len(
        PLACES
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "secret.bin").write_bytes(SECRET)
    inside = tmp_path / "model"
    (inside / "sub").mkdir(parents=True)
    (inside / "inside.bin").write_bytes(bytes(64))
    (inside / "link.bin").symlink_to(tmp_path / "secret.bin")
    (inside / "folder").symlink_to(tmp_path)
    return inside


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("location", [*LOCATIONS, "ABSOLUTE"], ids=lambda text: repr(text[:20]))
def test_nothing_is_read_from_elsewhere(
    place: Callable[[onnx.ModelProto, str], None],
    location: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder.parent)  # the working directory holds the secret as well
    model = classifier()
    place(model, str(folder.parent / "secret.bin") if location == "ABSOLUTE" else location)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=r"outside the model's folder|is missing") as caught:
        import_graph(folder / "model.onnx")
    assert "canary" not in str(caught.value)
    with pytest.raises(UserError, match="second file"):
        import_graph(model.SerializeToString())


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_the_same_tensor_inside_the_folder_is_read(
    place: Callable[[onnx.ModelProto, str], None], folder: Path
) -> None:
    model = classifier()
    place(model, "inside.bin")
    load_outside_data(model, folder, 1000)
    loaded = [tensor for tensor in by_reflection(model) if tensor.raw_data == bytes(16)]
    assert loaded
    assert not any(tensor.external_data or tensor.data_location for tensor in by_reflection(model))


@pytest.mark.parametrize(
    ("offset", "length"),
    [("-1", "16"), ("60", "16"), ("9" * 30, "16"), ("0", "9" * 30), ("a", "16"), ("²", "1")],
)
def test_offsets_that_lie_are_refused(offset: str, length: str, folder: Path) -> None:
    model = classifier()
    tensor = outside("t", "inside.bin")
    del tensor.external_data[1:]
    tensor.external_data.add(key="offset", value=offset)
    tensor.external_data.add(key="length", value=length)
    model.graph.initializer.append(tensor)
    with pytest.raises(UserError, match="too short"):
        load_outside_data(model, folder, 1000)
