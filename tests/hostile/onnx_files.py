"""ONNX files that allocate, loop, unfold, draw lots or reach for other files; each a builder of bytes.

Every case once broke an importer, ours or another's. None is larger than a few hundred kilobytes as a file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Nodes = Sequence[onnx.NodeProto]
_OPSET = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
HUGE = 1 << 33  # elements: 32 GB of float32


def classifier(
    before: Nodes = (),
    *,
    image: str = "x",
    functions: Sequence[onnx.FunctionProto] = (),
    stored: dict[str, np.ndarray] | None = None,
    batch: int | str = "batch",
) -> onnx.ModelProto:
    """A classifier of four classes over (batch, 3, 8, 8) whose convolution reads `image`, made by
    `before`.
    """
    rng = np.random.default_rng(0)
    arrays = {
        "stem": rng.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "head": rng.standard_normal((4, 4)).astype(np.float32),
        **(stored or {}),
    }
    nodes = [
        *before,
        helper.make_node("Conv", [image, "stem"], ["a"], pads=[1] * 4),
        helper.make_node("GlobalAveragePool", ["a"], ["b"]),
        helper.make_node("Flatten", ["b"], ["c"]),
        helper.make_node("Gemm", ["c", "head"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 4])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=_OPSET, ir_version=10, functions=list(functions))


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _added(*nodes: onnx.NodeProto, stored: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """The input plus the mean of what the nodes make (`big`): nothing can be left out as unused."""
    mean = helper.make_node("ReduceMean", ["big"], ["small"], keepdims=0)
    add = helper.make_node("Add", ["x", "small"], ["image"])
    return classifier([*nodes, mean, add], image="image", stored=stored)


def constant_of_shape() -> onnx.ModelProto:
    return _added(helper.make_node("ConstantOfShape", ["n"], ["big"]), stored={"n": _ints(HUGE)})


def expand() -> onnx.ModelProto:
    one = {"one": np.ones(1, np.float32), "n": _ints(HUGE)}
    return _added(helper.make_node("Expand", ["one", "n"], ["big"]), stored=one)


def expand_the_input() -> onnx.ModelProto:
    """Nothing constant to fold: the memory is asked for when the model runs."""
    return _added(
        helper.make_node("Reshape", ["x", "flat"], ["row"]),
        helper.make_node("Expand", ["row", "n"], ["big"]),
        stored={"flat": _ints(1, -1), "n": _ints(HUGE // 128, 1)},
    )


def range_of_billions() -> onnx.ModelProto:
    stored = {"from": np.float32(0), "to": np.float32(4e9), "by": np.float32(0.25)}
    stored = {name: np.asarray(value) for name, value in stored.items()}
    return _added(helper.make_node("Range", ["from", "to", "by"], ["big"]), stored=stored)


def random_normal() -> onnx.ModelProto:
    return _added(helper.make_node("RandomNormal", [], ["big"], shape=[HUGE]))


def random_answers() -> onnx.ModelProto:
    return _added(helper.make_node("RandomUniform", [], ["big"], shape=[4]))


def random_answers_in_a_branch() -> onnx.ModelProto:
    """Two runs agree almost always: the lot is drawn inside an If that rarely opens."""
    draw = helper.make_graph(
        [helper.make_node("RandomUniform", [], ["drawn"], shape=[4])],
        "draw",
        [],
        [helper.make_tensor_value_info("drawn", TensorProto.FLOAT, [4])],
    )
    keep = helper.make_graph(
        [helper.make_node("Identity", ["zeros"], ["kept"])],
        "keep",
        [],
        [helper.make_tensor_value_info("kept", TensorProto.FLOAT, [4])],
    )
    return _added(
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "limit"], ["is_rare"]),
        helper.make_node("If", ["is_rare"], ["big"], then_branch=draw, else_branch=keep),
        stored={"zeros": np.zeros(4, np.float32), "limit": np.asarray(np.float32(1e9))},
    )


def pad() -> onnx.ModelProto:
    pads = _ints(0, 0, 0, 0, 0, 0, 0, HUGE // 8)
    return _added(helper.make_node("Pad", ["x", "pads"], ["big"]), stored={"pads": pads})


def resize() -> onnx.ModelProto:
    scales = np.array([1, 1, 3e4, 3e4], np.float32)
    node = helper.make_node("Resize", ["x", "", "scales"], ["big"], mode="nearest")
    return _added(node, stored={"scales": scales})


def tile() -> onnx.ModelProto:
    return _added(helper.make_node("Tile", ["x", "n"], ["big"]), stored={"n": _ints(1, 1, 1 << 14, 1 << 14)})


def wide_transposed_convolution() -> onnx.ModelProto:
    kernel = {"up": np.ones((3, 3, 3, 3), np.float32)}
    node = helper.make_node("ConvTranspose", ["x", "up"], ["big"], dilations=[30_000, 30_000])
    return _added(node, stored=kernel)


def _loop(body_nodes: Nodes, start: str, n: int) -> onnx.NodeProto:
    body = helper.make_graph(
        [*body_nodes, helper.make_node("Identity", ["go"], ["go_on"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, None),
        ],
    )
    return helper.make_node("Loop", ["n", "always", start], ["big"], body=body)


def endless_loop() -> onnx.ModelProto:
    node = _loop([helper.make_node("Add", ["state", "one"], ["next"])], "x", 0)
    stored = {"n": np.asarray(np.int64(2**62)), "always": np.asarray(True), "one": np.asarray(np.float32(0))}
    return _added(node, stored=stored)


def loops_on_white() -> onnx.ModelProto:
    """Ends at once on noise, never on images that are white all over: no look at noise can tell."""
    node = _loop([helper.make_node("Add", ["state", "one"], ["next"])], "x", 0)
    node.input[1] = "is_white"
    stored = {
        "n": np.asarray(np.int64(2**62)),
        "one": np.asarray(np.float32(0)),
        "limit": np.asarray(np.float32(0.999)),
    }
    return _added(
        helper.make_node("ReduceMin", ["x"], ["darkest"], keepdims=0),
        helper.make_node("Greater", ["darkest", "limit"], ["is_white"]),
        node,
        stored=stored,
    )


def doubling_loop() -> onnx.ModelProto:
    node = _loop([helper.make_node("Concat", ["state", "state"], ["next"], axis=3)], "x", 0)
    return _added(node, stored={"n": np.asarray(np.int64(60)), "always": np.asarray(True)})


def _nested_functions(depth: int, breadth: int, op: str) -> list[onnx.FunctionProto]:
    made = []
    for level in range(depth):
        names = ["v", *[f"v{i}" for i in range(breadth)]]
        kind, domain = (op, "") if level == 0 else (f"laugh{level - 1}", "own")
        nodes = [helper.make_node(kind, [names[i]], [names[i + 1]], domain=domain) for i in range(breadth)]
        made.append(helper.make_function("own", f"laugh{level}", ["v"], [names[-1]], nodes, _OPSET))
    return made


def billion_laughs() -> onnx.ModelProto:
    call = helper.make_node("laugh8", ["x"], ["image"], domain="own")
    return classifier([call], image="image", functions=_nested_functions(9, 10, "Relu"))


def functions_in_a_circle() -> onnx.ModelProto:
    call = helper.make_node("here", ["x"], ["image"], domain="own")
    functions = [
        helper.make_function(
            "own", a, ["v"], ["w"], [helper.make_node(b, ["v"], ["w"], domain="own")], _OPSET
        )
        for a, b in (("here", "there"), ("there", "here"))
    ]
    return classifier([call], image="image", functions=functions)


def many_nodes(n: int = 200_000) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(n)]
    return classifier(nodes, image=f"v{n}")


def many_initializers() -> onnx.ModelProto:
    return classifier(stored={f"unused{i}": np.zeros(1, np.float32) for i in range(100_000)})


def fixed_batch_of_a_billion() -> onnx.ModelProto:
    return classifier(batch=10**9)


def declared_shape_of_terabytes() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].dims[:] = [1 << 40, 3, 3, 3]
    return model


def negative_dimension() -> onnx.ModelProto:
    model = classifier()
    model.graph.initializer[0].dims[:] = [-4, 3, 3, 3]
    return model


def deep_metadata() -> onnx.ModelProto:
    model = classifier()
    deep = "[" * 100_000 + "]" * 100_000
    helper.set_model_props(model, {"anchorpoint.class_names": deep, "anchorpoint.preprocessing": deep})
    return model


def wrong_metadata() -> onnx.ModelProto:
    model = classifier()
    helper.set_model_props(model, {"anchorpoint.preprocessing": '{"mean": 3, "std": null, "height": []}'})
    return model


def unknown_interpolation() -> onnx.ModelProto:
    model = classifier()
    text = '{"height": 8, "width": 8, "mean": [0,0,0], "std": [1,1,1], "interpolation": "magic"}'
    helper.set_model_props(model, {"anchorpoint.preprocessing": text})
    return model


def huge_class_count() -> onnx.ModelProto:
    """Scores for a billion classes, from one number each."""
    model = classifier()
    model.graph.initializer.append(numpy_helper.from_array(_ints(1, 250_000_000), "wide"))
    model.graph.node.append(helper.make_node("Tile", ["y", "wide"], ["z"]))
    model.graph.output[0].name = "z"
    model.graph.output[0].type.tensor_type.shape.dim[1].Clear()
    return model


RUNTIME: dict[str, Callable[[], onnx.ModelProto]] = {
    function.__name__: function
    for function in (
        *(constant_of_shape, expand, expand_the_input, range_of_billions, random_normal, pad, resize, tile),
        *(wide_transposed_convolution, endless_loop, doubling_loop, huge_class_count),
    )
}
STATIC: dict[str, Callable[[], onnx.ModelProto]] = {
    function.__name__: function
    for function in (
        *(random_answers, random_answers_in_a_branch, billion_laughs, functions_in_a_circle, many_nodes),
        *(many_initializers, fixed_batch_of_a_billion, declared_shape_of_terabytes, negative_dimension),
        *(deep_metadata, wrong_metadata, unknown_interpolation),
    )
}
