"""One model: kernels swapped before optimisation reach every kind of consumer, and softmax survives extreme
logits.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from scipy.special import softmax

from engine.predictions.job import batch_size, without_kernels
from engine.predictions.model import Session, probabilities
from engine.types import Kernel, Preprocessing, UserError

RNG = np.random.default_rng(0)


def graph(nodes: list[onnx.NodeProto], weights: np.ndarray, x_shape: list[int | str]) -> bytes:
    made = helper.make_graph(
        nodes,
        "one kernel",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x_shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weights, "w")],
    )
    return helper.make_model(
        made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    ).SerializeToString()


@pytest.mark.parametrize("shape", [(2, 1), (2, 3), (5, 31)])
def test_a_kernel_behind_a_transpose_is_swapped(shape: tuple[int, int]) -> None:
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["y"]),
    ]
    stored = RNG.standard_normal(shape).astype(np.float32)
    stripped = without_kernels(
        graph(nodes, stored, ["batch", shape[1]]), [Kernel("w", shape, (0,), "MatMul")]
    )
    assert stored.tobytes() not in stripped
    x, other = (
        RNG.standard_normal((3, shape[1])).astype(np.float32),
        RNG.standard_normal(shape).astype(np.float32),
    )
    for weights in (stored, other):
        np.testing.assert_allclose(Session(stripped, {"w": weights}).outputs(x), x @ weights.T, atol=1e-5)


def test_a_grouped_transposed_convolution_is_swapped() -> None:
    shape = (4, 3, 1, 1)  # two groups of two inputs, three outputs each
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2)]
    stripped = without_kernels(
        graph(nodes, np.zeros(shape, np.float32), ["batch", 4, 2, 2]),
        [Kernel("w", shape, (1,), "ConvTranspose", 2)],
    )
    x, weights = (
        RNG.standard_normal((3, 4, 2, 2)).astype(np.float32),
        RNG.standard_normal(shape).astype(np.float32),
    )
    expected = np.concatenate(
        [
            np.einsum("bihw,io->bohw", x[:, 2 * g : 2 * g + 2], weights[2 * g : 2 * g + 2, :, 0, 0])
            for g in (0, 1)
        ],
        axis=1,
    )
    np.testing.assert_allclose(Session(stripped, {"w": weights}).outputs(x), expected, atol=1e-5)


def test_an_input_of_another_shape_is_the_users_to_correct() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    weights = np.ones((3, 2), np.float32)
    session = Session(
        without_kernels(graph(nodes, weights, ["batch", 3]), [Kernel("w", (3, 2), (1,), "MatMul")]),
        {"w": weights},
    )
    with pytest.raises(UserError, match="takes inputs of shape"):
        session.outputs(np.ones((1, 4), np.float32))


def test_softmax_is_stable_and_exact() -> None:
    logits = np.array([[1e4, 0, -1e4], [-1e30, 0, 1], [3e38, 3e38, -3e38], [1e-8, 0, 0]], np.float32)
    probs = probabilities(logits, "logits")
    assert probs.dtype == np.float32
    np.testing.assert_allclose(probs, softmax(logits.astype(np.float64), axis=1), rtol=1e-6)
    ready = np.array([[0.25, 0.75]], np.float32)
    assert probabilities(ready, "probabilities") is ready


def test_batches_are_powers_of_two_that_shrink_with_the_image() -> None:
    sizes = {side: batch_size(Preprocessing(side, side)) for side in (8, 32, 96, 224, 384, 1024)}
    assert sizes == {8: 256, 32: 128, 96: 8, 224: 2, 384: 1, 1024: 1}
