"""Output-channel axes against brute force: move one weight, see which output channels move."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from engine.teacher.kernels import find_constant_kernels, find_kernels
from engine.types import Kernel


def graph(nodes: list[Any], image: tuple[int, ...], stored: dict[str, Any]) -> onnx.ModelProto:
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in stored.items()]
    images = helper.make_tensor_value_info("x", TensorProto.FLOAT, image)
    scores = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    return helper.make_model(
        helper.make_graph(nodes, "g", [images], [scores], tensors),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )


def affected_channels(model: onnx.ModelProto, name: str, image: Any, channel_axis: int) -> Any:
    """For every element of the initializer, the one output channel that changes with it."""
    stored = next(tensor for tensor in model.graph.initializer if tensor.name == name)
    weight = numpy_helper.to_array(stored).copy()

    def run(value: Any) -> Any:
        stored.CopyFrom(numpy_helper.from_array(value, name))
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return np.moveaxis(session.run(None, {"x": image})[0], channel_axis, -1)

    before, channels = run(weight), np.zeros(weight.shape, int)
    for index in np.ndindex(*weight.shape):
        moved = weight.copy()
        moved[index] += 1
        changed = np.abs(run(moved) - before).reshape(-1, before.shape[-1]).max(axis=0) > 1e-6
        assert changed.sum() == 1
        channels[index] = int(changed.argmax())
    return channels


def stated_channels(kernel: Kernel) -> Any:
    """The channel of every element as `axes` and `groups` describe it."""
    index = np.indices(kernel.shape)
    number = (
        index[0] // (kernel.shape[0] // kernel.groups) if kernel.groups > 1 else np.zeros(kernel.shape, int)
    )
    for axis in kernel.axes:
        number = number * kernel.shape[axis] + index[axis]
    return number


def weights(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


node = helper.make_node
CASES: dict[str, tuple[list[Any], tuple[int, ...], dict[str, Any], int]] = {
    "conv": ([node("Conv", ["x", "w"], ["y"])], (1, 2, 3, 3), {"w": weights(3, 2, 2, 2)}, 1),
    "conv-1d": ([node("Conv", ["x", "w"], ["y"])], (1, 2, 5), {"w": weights(3, 2, 2)}, 1),
    "grouped": ([node("Conv", ["x", "w"], ["y"], group=2)], (1, 4, 3, 3), {"w": weights(4, 2, 2, 2)}, 1),
    "depthwise": ([node("Conv", ["x", "w"], ["y"], group=2)], (1, 2, 3, 3), {"w": weights(4, 1, 2, 2)}, 1),
    "transposed": ([node("ConvTranspose", ["x", "w"], ["y"])], (1, 2, 3, 3), {"w": weights(2, 3, 2, 2)}, 1),
    "transposed-grouped": (
        [node("ConvTranspose", ["x", "w"], ["y"], group=2)],
        (1, 4, 3, 3),
        {"w": weights(4, 3, 2, 2)},
        1,
    ),
    "gemm": ([node("Gemm", ["x", "w"], ["y"])], (2, 3), {"w": weights(3, 4)}, 1),
    "gemm-transposed": ([node("Gemm", ["x", "w"], ["y"], transB=1)], (2, 3), {"w": weights(4, 3)}, 1),
    "gemm-weight-first": ([node("Gemm", ["w", "x"], ["y"])], (3, 2), {"w": weights(4, 3)}, 0),
    "gemm-weight-first-transposed": (
        [node("Gemm", ["w", "x"], ["y"], transA=1)],
        (3, 2),
        {"w": weights(3, 4)},
        0,
    ),
    "matmul": ([node("MatMul", ["x", "w"], ["y"])], (1, 2, 3), {"w": weights(3, 4)}, 2),
    "matmul-weight-first": ([node("MatMul", ["w", "x"], ["y"])], (1, 3, 2), {"w": weights(4, 3)}, 1),
    "linear-on-tokens": (
        [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])],
        (1, 2, 3),
        {"w": weights(4, 3)},
        2,
    ),
    "keras-conv": (
        [
            node("Identity", ["w"], ["i"]),
            node("Transpose", ["i"], ["t"], perm=[3, 2, 0, 1]),
            node("Conv", ["x", "t"], ["y"]),
        ],
        (1, 2, 3, 3),
        {"w": weights(2, 2, 2, 3)},
        1,
    ),
    "keras-depthwise": (
        [
            node("Reshape", ["w", "s"], ["r"]),
            node("Transpose", ["r"], ["t"], perm=[3, 2, 0, 1]),
            node("Conv", ["x", "t"], ["y"], group=2),
        ],
        (1, 2, 3, 3),
        {"w": weights(2, 2, 2, 3), "s": np.array([2, 2, 1, -1])},
        1,
    ),
    "keras-query": (
        [node("Reshape", ["w", "s"], ["r"]), node("MatMul", ["x", "r"], ["y"])],
        (1, 2, 3),
        {"w": weights(3, 2, 2), "s": np.array([0, 4])},
        2,
    ),
    "conv-1d-as-2d": (
        [
            node("Unsqueeze", ["w", "s"], ["u"]),
            node("Transpose", ["u"], ["t"], perm=[3, 2, 0, 1]),
            node("Conv", ["x", "t"], ["y"]),
        ],
        (1, 2, 1, 5),
        {"w": weights(2, 2, 3), "s": np.array([0])},
        1,
    ),
    "einsum": (
        [node("Einsum", ["x", "w"], ["y"], equation="bti,oi->bto")],
        (1, 2, 3),
        {"w": weights(4, 3)},
        2,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_axes_are_those_of_the_output_channels(name: str) -> None:
    nodes, shape, stored, channel_axis = CASES[name]
    model = graph(nodes, shape, stored)
    (kernel,) = find_kernels(model.graph)
    assert (kernel.name, kernel.shape) == ("w", stored["w"].shape)
    channels = affected_channels(model, "w", np.abs(weights(*shape)) + 1, channel_axis)
    np.testing.assert_array_equal(stated_channels(kernel), channels)


@given(st.permutations(range(4)), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_a_convolution_is_found_behind_any_transpose(
    perm: list[int], out: int, inputs: int, size: int
) -> None:
    stored_shape = tuple(np.array((out, inputs, size, 2))[np.argsort(perm)])
    model = graph(
        [node("Transpose", ["w"], ["t"], perm=list(perm)), node("Conv", ["x", "t"], ["y"])],
        (1, inputs, 3, 3),
        {"w": weights(*stored_shape)},
    )
    (kernel,) = find_kernels(model.graph)
    assert np.prod([kernel.shape[axis] for axis in kernel.axes]) == out
    if out > 1:
        assert kernel.axes == (perm[0],)


def test_a_shared_kernel_appears_once_and_products_of_activations_do_not() -> None:
    nodes = [
        node("MatMul", ["x", "w"], ["a"]),
        node("MatMul", ["a", "w"], ["b"]),
        node("MatMul", ["b", "a"], ["c"]),
        node("Add", ["c", "bias"], ["d"]),
        node("Gather", ["table", "row"], ["e"]),
        node("Mul", ["d", "e"], ["y"]),
    ]
    stored = {"w": weights(3, 3), "bias": weights(3, 3), "table": weights(5, 3), "row": np.array([1])}
    assert [kernel.name for kernel in find_kernels(graph(nodes, (3, 3), stored).graph)] == ["w"]


def test_a_weight_that_meets_constants_only_is_no_kernel_and_is_named() -> None:
    """A network that makes position biases: two layers on stored coordinates, added to what the image
    gives.
    """
    arrays = {
        "coordinates": np.ones((4, 2), np.float32),
        "mlp.1.weight": np.ones((2, 3), np.float32),
        "mlp.2.weight": np.ones((3, 5), np.float32),
        "head.weight": np.ones((7, 5), np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["coordinates", "mlp.1.weight"], ["a"]),
            helper.make_node("Relu", ["a"], ["b"]),
            helper.make_node("MatMul", ["b", "mlp.2.weight"], ["c"]),
            helper.make_node("MatMul", ["x", "head.weight"], ["d"]),
            helper.make_node("Add", ["c", "d"], ["y"]),
        ],
        "positions",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    assert [kernel.name for kernel in find_kernels(graph)] == ["head.weight"]
    assert find_constant_kernels(graph) == ("mlp.1.weight", "mlp.2.weight")
