"""ONNX graphs that no exporter writes: nesting, functions, versions, names, sizes and inputs that are odd
rather than large.

Each is a builder. Some are valid and may pass; none may do more than be refused in one line.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.onnx_files import _OPSET, classifier

ANSI = "\x1b[2J\x1b]0;owned\x07"


def _relu(name: str = "image") -> onnx.NodeProto:
    return helper.make_node("Relu", ["x"], [name])


def _graph(nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    out = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    return helper.make_graph(nodes, f"inner {output}", [], [out])


def nested_ifs(depth: int = 14) -> onnx.ModelProto:
    """An If in an If in an If; protobuf itself refuses at a hundred messages."""
    inner = _graph([helper.make_node("Identity", ["x"], ["d0"])], "d0")
    for level in range(1, depth):
        node = helper.make_node("If", ["always"], [f"d{level}"], then_branch=inner, else_branch=inner)
        inner = _graph([node], f"d{level}")
        if level > 12:  # both branches double the file
            node.attribute[1].g.CopyFrom(_graph([helper.make_node("Identity", ["x"], ["e"])], "e"))
    top = helper.make_node("If", ["always"], ["image"], then_branch=inner, else_branch=inner)
    return classifier([top], image="image", stored={"always": np.asarray(True)})


def deepest_ifs() -> onnx.ModelProto:
    inner = _graph([helper.make_node("Identity", ["x"], ["d0"])], "d0")
    other = _graph([helper.make_node("Identity", ["x"], ["e"])], "e")
    for level in range(1, 30):
        node = helper.make_node("If", ["always"], [f"d{level}"], then_branch=inner, else_branch=other)
        inner = _graph([node], f"d{level}")
    top = helper.make_node("If", ["always"], ["image"], then_branch=inner, else_branch=other)
    return classifier([top], image="image", stored={"always": np.asarray(True)})


def sparse_initializer(dims: tuple[int, ...] = (4, 3, 3, 3), index: int = 0) -> onnx.ModelProto:
    model = classifier()
    del model.graph.initializer[0]
    values = numpy_helper.from_array(np.ones(1, np.float32), "stem")
    indices = numpy_helper.from_array(np.array([index], np.int64), "at")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, list(dims)))
    return model


def sparse_of_terabytes() -> onnx.ModelProto:
    return sparse_initializer((1 << 20, 3, 1 << 12, 1 << 12))


def sparse_that_writes_outside() -> onnx.ModelProto:
    return sparse_initializer(index=1 << 40)


def sparse_negative_index() -> onnx.ModelProto:
    return sparse_initializer(index=-(1 << 40))


def function_that_calls_itself() -> onnx.ModelProto:
    node = helper.make_node("again", ["v"], ["w"], domain="own")
    own = helper.make_function("own", "again", ["v"], ["w"], [node], _OPSET)
    call = helper.make_node("again", ["x"], ["image"], domain="own")
    return classifier([call], image="image", functions=[own])


def function_twice() -> onnx.ModelProto:
    node = helper.make_node("Relu", ["v"], ["w"])
    own = helper.make_function("own", "twin", ["v"], ["w"], [node], _OPSET)
    call = helper.make_node("twin", ["x"], ["image"], domain="own")
    return classifier([call], image="image", functions=[own, own])


def function_called_conv() -> onnx.ModelProto:
    """A function that takes the name of a standard operator."""
    node = helper.make_node("Relu", ["v"], ["w"])
    own = helper.make_function("", "Conv", ["v"], ["w"], [node], _OPSET)
    return classifier(functions=[own])


def _opset(version: int) -> onnx.ModelProto:
    model = classifier()
    model.opset_import[0].version = version
    return model


def opset_of_a_million() -> onnx.ModelProto:
    return _opset(10**6)


def opset_negative() -> onnx.ModelProto:
    return _opset(-1)


def opset_zero() -> onnx.ModelProto:
    return _opset(0)


def opset_missing() -> onnx.ModelProto:
    model = classifier()
    del model.opset_import[:]
    return model


def opset_a_thousand_times() -> onnx.ModelProto:
    model = classifier()
    model.opset_import.extend(helper.make_opsetid(f"own{i}", i) for i in range(1000))
    return model


def ir_of_the_future() -> onnx.ModelProto:
    model = classifier()
    model.ir_version = 2**31
    return model


def ir_zero() -> onnx.ModelProto:
    model = classifier()
    model.ir_version = 0
    return model


def long_text_attribute() -> onnx.ModelProto:
    node = _relu()
    node.attribute.append(helper.make_attribute("note", "x" * 30_000_000))
    return classifier([node], image="image")


def long_names() -> onnx.ModelProto:
    name = "n" * 100_000
    model = classifier([_relu(name)], image=name)
    model.graph.name = name
    model.doc_string = name
    return model


def names_with_escapes() -> onnx.ModelProto:
    """An unknown operator whose name clears a terminal and starts new lines."""
    evil = f"evil\n{ANSI}\r\nTraceback (most recent call last):\u2028x\u0085y"
    node = helper.make_node(evil, ["x"], ["image"], name=evil, domain="")
    return classifier([node], image="image")


def weight_with_escapes() -> onnx.ModelProto:
    model = classifier()
    name = f"stem\n{ANSI}\u2028"
    model.graph.initializer[0].name = name
    model.graph.initializer[0].dims[0] = 7
    model.graph.node[0].input[1] = name
    return model


def domain_with_escapes() -> onnx.ModelProto:
    node = helper.make_node("Relu", ["x"], ["image"], domain=f"a\n{ANSI}")
    return classifier([node], image="image")


def _dims(*dims: int) -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].dims[:] = dims
    return model


def dims_that_overflow() -> onnx.ModelProto:
    return _dims(1 << 32, 1 << 32, 3, 3)


def dims_at_the_end_of_int64() -> onnx.ModelProto:
    return _dims(2**63 - 1, 2**63 - 1)


def dims_that_wrap_to_the_right_size() -> onnx.ModelProto:
    return _dims(1 << 62, 4, 3, 36)


def ten_thousand_dims() -> onnx.ModelProto:
    return _dims(*[1] * 10_000)


def zero_dims() -> onnx.ModelProto:
    return _dims(0, 3, 3, 3)


def _input(element: int, shape: list[int | str | None] | None) -> onnx.ModelProto:
    model = classifier()
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", element, shape))
    return model


def input_of_float8() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT8E4M3FN, ["n", 3, 8, 8])


def input_of_bfloat16() -> onnx.ModelProto:
    return _input(TensorProto.BFLOAT16, ["n", 3, 8, 8])


def input_of_text() -> onnx.ModelProto:
    return _input(TensorProto.STRING, ["n", 3, 8, 8])


def input_of_complex() -> onnx.ModelProto:
    return _input(TensorProto.COMPLEX128, ["n", 3, 8, 8])


def input_of_unknown_type() -> onnx.ModelProto:
    return _input(9999, ["n", 3, 8, 8])


def input_without_type() -> onnx.ModelProto:
    model = classifier()
    model.graph.input[0].ClearField("type")
    return model


def input_without_shape() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT, None)


def input_of_rank_zero() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT, [])


def input_of_rank_hundred() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT, [1] * 100)


def input_of_negative_size() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT, [-1, 3, -8, -8])


def input_of_a_million_pixels_squared() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT, ["n", 3, 10**6, 10**6])


def input_of_sixty_thousand_channels() -> onnx.ModelProto:
    return _input(TensorProto.FLOAT, ["n", 60_000, 8, 8])


def batch_of_zero() -> onnx.ModelProto:
    return classifier(batch=0)


def batch_of_four_thousand() -> onnx.ModelProto:
    return classifier(batch=4096)


def input_is_a_sequence() -> onnx.ModelProto:
    model = classifier()
    inner = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    model.graph.input[0].type.CopyFrom(helper.make_sequence_type_proto(inner))
    return model


def no_input() -> onnx.ModelProto:
    model = classifier()
    del model.graph.input[:]
    return model


def no_output() -> onnx.ModelProto:
    model = classifier()
    del model.graph.output[:]
    return model


def no_nodes() -> onnx.ModelProto:
    model = classifier()
    del model.graph.node[:]
    return model


def output_that_nobody_makes() -> onnx.ModelProto:
    model = classifier()
    model.graph.output[0].name = "nothing"
    return model


def input_twice() -> onnx.ModelProto:
    model = classifier()
    model.graph.input.append(model.graph.input[0])
    return model


def a_thousand_inputs() -> onnx.ModelProto:
    model = classifier()
    model.graph.input.extend(
        helper.make_tensor_value_info(f"x{i}", TensorProto.FLOAT, [1]) for i in range(1000)
    )
    return model


def weight_twice() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer.append(model.graph.initializer[0])
    return model


def nodes_in_a_circle() -> onnx.ModelProto:
    nodes = [helper.make_node("Add", ["x", "image"], ["b"]), helper.make_node("Relu", ["b"], ["image"])]
    return classifier(nodes, image="image")


def nodes_out_of_order() -> onnx.ModelProto:
    model = classifier()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return model


GRAPHS: tuple[Callable[[], onnx.ModelProto], ...] = (
    *(nested_ifs, deepest_ifs, sparse_initializer, sparse_of_terabytes, sparse_that_writes_outside),
    *(sparse_negative_index, function_that_calls_itself, function_twice, function_called_conv),
    *(opset_of_a_million, opset_negative, opset_zero, opset_missing, opset_a_thousand_times),
    *(ir_of_the_future, ir_zero, long_text_attribute, long_names, names_with_escapes, weight_with_escapes),
    *(domain_with_escapes, dims_that_overflow, dims_at_the_end_of_int64, dims_that_wrap_to_the_right_size),
    *(ten_thousand_dims, zero_dims, input_of_float8, input_of_bfloat16, input_of_text, input_of_complex),
    *(input_of_unknown_type, input_without_type, input_without_shape, input_of_rank_zero),
    *(input_of_rank_hundred, input_of_negative_size, input_of_a_million_pixels_squared),
    *(input_of_sixty_thousand_channels, batch_of_zero, batch_of_four_thousand, input_is_a_sequence),
    *(no_input, no_output, no_nodes, output_that_nobody_makes, input_twice, a_thousand_inputs),
    *(weight_twice, nodes_in_a_circle, nodes_out_of_order),
)
