"""The quantizer against hand-worked codes, numpy.percentile, a brute-force loop over channels, and bit-exact
round trips.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.family.quantize import (
    Percentiles,
    Quantized,
    channel_rows,
    dequantize,
    from_channel_rows,
    n_output_channels,
    pack,
    quantize,
    unpack,
)
from engine.types import Kernel, Recipe, UserError

KERNELS = {
    "conv": Kernel("w", (6, 4, 3, 3), (0,), "Conv"),
    "depthwise": Kernel("w", (5, 1, 3, 3), (0,), "Conv", groups=5),
    "conv1d": Kernel("w", (4, 3, 5), (0,), "Conv"),
    "transposed": Kernel("w", (6, 4, 3, 2), (1,), "ConvTranspose"),
    "transposed grouped": Kernel("w", (6, 4, 3, 2), (1,), "ConvTranspose", groups=3),
    "gemm": Kernel("w", (7, 11), (0,), "Gemm"),
    "matmul": Kernel("w", (11, 7), (1,), "MatMul"),
    "keras conv": Kernel("w", (3, 3, 4, 6), (3,), "Conv"),
    "keras depthwise": Kernel("w", (3, 3, 5, 2), (2, 3), "Conv"),
    "einsum": Kernel("w", (8, 2, 3), (1, 2), "MatMul"),
    "single": Kernel("w", (1, 1, 1, 1), (0,), "Conv"),
}


def some_weights(kernel: Kernel, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(kernel.shape).astype(np.float32)


def channels_by_hand(weights: np.ndarray, kernel: Kernel) -> list[np.ndarray]:
    """Each output channel's weights, picked index by index."""
    if kernel.op == "ConvTranspose":
        inputs, outputs = kernel.shape[0] // kernel.groups, kernel.shape[1]
        return [
            weights[g * inputs : (g + 1) * inputs, o].ravel()
            for g in range(kernel.groups)
            for o in range(outputs)
        ]
    picks = product(*(range(kernel.shape[axis]) for axis in kernel.axes))
    return [np.moveaxis(weights, kernel.axes, range(len(kernel.axes)))[pick].ravel() for pick in picks]


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_rows_are_the_output_channels_and_come_back(kernel: Kernel) -> None:
    weights = some_weights(kernel)
    rows = channel_rows(weights, kernel)
    expected = channels_by_hand(weights, kernel)
    assert rows.shape == (n_output_channels(kernel), len(expected[0])) == (len(expected), len(expected[0]))
    for row, channel in zip(rows, expected, strict=True):
        np.testing.assert_array_equal(row, channel)
    back = from_channel_rows(rows, kernel)
    assert back.flags.c_contiguous
    np.testing.assert_array_equal(back, weights)


@pytest.mark.parametrize("granularity", ["tensor", "channel", "lastaxis"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_codes_follow_the_formula_channel_by_channel(kernel: Kernel, granularity: str) -> None:
    for bits, q in product((2, 3, 4, 5, 6, 7, 8), (99.0, 99.5, 100.0, 73.25)):
        weights = some_weights(kernel, seed=bits)
        result = quantize(weights, kernel, Recipe(bits, q, granularity, False))
        judged = dequantize(result)
        if granularity == "tensor":
            pieces = [(weights.ravel(), result.codes.ravel(), judged.ravel())]
        elif granularity == "channel":
            pieces = list(
                zip(*(channels_by_hand(a, kernel) for a in (weights, result.codes, judged)), strict=True)
            )
        else:
            pieces = [
                tuple(a[..., i].ravel() for a in (weights, result.codes, judged))
                for i in range(kernel.shape[-1])
            ]
        assert result.codes.dtype == np.int8
        assert result.scales.shape == (len(pieces),)
        top = 2 ** (bits - 1) - 1
        for (w, codes, floats), scale in zip(pieces, result.scales, strict=True):
            threshold = np.percentile(np.abs(w.astype(np.float64)), q)
            assert scale == np.float32(threshold / top)
            np.testing.assert_array_equal(
                codes, np.round(np.clip(w.astype(np.float64), -threshold, threshold) / (threshold / top))
            )
            np.testing.assert_array_equal(floats, codes.astype(np.float32) * scale)
            assert np.abs(codes).max() <= top


def test_a_case_worked_by_hand() -> None:
    kernel = Kernel("w", (2, 5), (0,), "Gemm")
    weights = np.array([[-3, 0.5, 1.5, 2.5, 3], [0, 0, 0, 0, 0]], np.float32)
    result = quantize(weights, kernel, Recipe(3, 100, "channel", False))
    # s = 3 / 3 = 1; ties go to the even neighbour; the all-zero channel keeps scale 1
    assert result.codes.tolist() == [[-3, 0, 2, 2, 3], [0, 0, 0, 0, 0]]
    assert result.scales.tolist() == [1.0, 1.0]
    # s = 1/3 is not a float32, yet 0.5 / s is exactly 1.5 and must round to 2
    thirds = quantize(
        np.array([[0.5, 1.0]], np.float32), Kernel("w", (1, 2), (0,), "Gemm"), Recipe(3, 100, "tensor", False)
    )
    assert thirds.codes.tolist() == [[2, 3]]


def test_a_channel_that_clipping_empties_is_zero_with_scale_one() -> None:
    weights = np.zeros((1, 1000), np.float32)
    weights[0, 3] = 7.0  # the 99th percentile of |w| is 0
    result = quantize(weights, Kernel("w", (1, 1000), (0,), "Gemm"), Recipe(4, 99, "channel", False))
    assert result.scales.tolist() == [1.0]
    assert not result.codes.any()


def test_denormal_weights_do_not_divide_by_zero() -> None:
    weights = np.full((1, 4), 1e-45, np.float32)
    result = quantize(weights, Kernel("w", (1, 4), (0,), "Gemm"), Recipe(8, 100, "channel", False))
    assert np.isfinite(dequantize(result)).all()
    assert result.scales.tolist() == [1.0]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_non_finite_weights_are_refused_by_name(bad: float) -> None:
    weights = np.ones((2, 2), np.float32)
    weights[0, 1] = bad
    with pytest.raises(UserError, match="block1"):
        quantize(weights, Kernel("block1.weight", (2, 2), (0,), "Gemm"), Recipe(8, 99, "tensor", False))


def test_percentiles_are_shared_and_equal_the_single_computation() -> None:
    kernel = KERNELS["conv"]
    weights = some_weights(kernel)
    recipes = [
        Recipe(b, q, g, False) for b in (2, 4, 8) for q in (99.0, 100.0) for g in ("tensor", "channel")
    ]
    shared = Percentiles.for_recipes({"w": weights}, recipes)
    for recipe in recipes:
        once, alone = quantize(weights, kernel, recipe, shared), quantize(weights, kernel, recipe)
        np.testing.assert_array_equal(once.codes, alone.codes)
        np.testing.assert_array_equal(once.scales, alone.scales)
    with pytest.raises(ValueError, match=r"99\.5"):
        shared.thresholds(kernel, Recipe(4, 99.5, "tensor", False))


def test_weights_of_another_shape_are_a_programming_error() -> None:
    with pytest.raises(ValueError, match="shape"):
        quantize(
            np.ones((2, 3), np.float32), Kernel("w", (3, 2), (0,), "Gemm"), Recipe(8, 100, "tensor", False)
        )


def test_quantizing_does_not_touch_the_weights() -> None:
    weights = some_weights(KERNELS["gemm"])
    before = weights.copy()
    weights.flags.writeable = False
    quantize(weights, KERNELS["gemm"], Recipe(2, 99, "channel", False))
    np.testing.assert_array_equal(weights, before)


@given(st.integers(2, 8), st.data())
@settings(max_examples=60, deadline=None)
def test_packing_round_trips_at_the_true_width(bits: int, data: st.DataObject) -> None:
    codes = np.array(
        data.draw(st.lists(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), max_size=70)), np.int8
    )
    packed = pack(codes, bits)
    assert packed.dtype == np.uint8
    assert packed.nbytes == -(-codes.size * bits // 8)
    # low bits first, as one big integer
    stream = sum((int(code) & (2**bits - 1)) << (i * bits) for i, code in enumerate(codes))
    assert packed.tobytes() == stream.to_bytes(packed.nbytes, "little")
    np.testing.assert_array_equal(unpack(packed, bits, codes.size), codes)


@pytest.mark.parametrize("bits", [3, 5, 7])
def test_packing_crosses_block_borders(bits: int) -> None:
    codes = (
        np.random.default_rng(bits)
        .integers(-(2 ** (bits - 1)) + 1, 2 ** (bits - 1), (1 << 20) + 13)
        .astype(np.int8)
    )
    np.testing.assert_array_equal(unpack(pack(codes, bits), bits, codes.size), codes)


def test_packing_refuses_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="fit"):
        pack(np.array([2], np.int8), 2)
    with pytest.raises(ValueError, match="bytes"):
        unpack(np.zeros(3, np.uint8), 4, 9)


def test_scales_run_along_the_axes_the_result_names() -> None:
    kernel = KERNELS["keras depthwise"]
    weights = some_weights(kernel)
    last: Quantized = quantize(weights, kernel, Recipe(4, 100, "lastaxis", False))
    assert last.kernel.axes == (3,)
    assert last.scales.shape == (2,)
    assert quantize(weights, kernel, Recipe(4, 100, "channel", False)).scales.shape == (10,)
