"""W8A8: ranges from one pass, codes that overflow nowhere, integers that really run, and what stays float."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import numpy_helper

from engine.deploy.calibration import Calibration, calibrate_on, read_calibration
from engine.deploy.folding import folded_model
from engine.deploy.integer_graph import Affine, quantize_weight
from engine.deploy.integer_plan import make_plan
from engine.deploy.integers import IntegerFactory, integer_layers
from engine.deploy.ranges import Histogram, Range, collect
from engine.family.kinds import RANGE_METHODS, StaticRecipe
from engine.types import UserError
from tests.tiny_teacher import tiny_teacher


def calibration(n: int = 40, **teacher: object) -> Calibration:
    images = np.random.default_rng(1).standard_normal((n, 3, 16, 16)).astype(np.float32)
    return calibrate_on(tiny_teacher(**teacher), images)  # type: ignore[arg-type]


def run(content: bytes, images: np.ndarray, *, optimise: bool = True) -> np.ndarray:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if not optimise:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: images})[0])


@pytest.mark.parametrize("granularity", ["channel", "tensor"])
@pytest.mark.parametrize("method", RANGE_METHODS)
def test_candidates_run_on_integers_and_stay_near(granularity: str, method: str) -> None:
    given = calibration()
    recipe = StaticRecipe(granularity, method, False)  # type: ignore[arg-type]
    made = IntegerFactory(given).make(recipe)
    assert integer_layers(made.content) == made.facts["layers"] == 4
    teacher, integer = run(given.teacher.graph, given.images), run(made.content, given.images)
    assert np.mean(teacher.argmax(1) == integer.argmax(1)) > 0.9
    # the integer kernels compute what the plain definition of the operators says, but for rounding at ties
    plain = run(made.content, given.images, optimise=False)
    assert np.abs(integer - plain).max() < 0.1 * np.abs(teacher).max()


def test_float_ends_stay_float() -> None:
    made = IntegerFactory(calibration()).make(StaticRecipe("channel", "minmax", True))
    assert made.facts["integer_layers"] == 2
    stored = {t.name for t in onnx.ModelProto.FromString(made.content).graph.initializer}
    assert "head" in stored


def test_the_same_images_give_the_same_bytes() -> None:
    recipe = StaticRecipe("channel", "p99.9", False)
    first, second = (IntegerFactory(calibration()).make(recipe).content for _ in range(2))
    assert first == second


def test_the_images_run_once_for_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.deploy import integers

    calls = []
    monkeypatch.setattr(integers, "collect", lambda *given: calls.append(1) or collect(*given))
    factory = IntegerFactory(calibration())
    for method in RANGE_METHODS:
        factory.make(StaticRecipe("channel", method, True))
        factory.make(StaticRecipe("tensor", method, False))
    assert calls == [1]


def test_a_folded_graph_computes_the_same() -> None:
    given = calibration()
    model = folded_model(given.teacher)
    assert "BatchNormalization" not in {node.op_type for node in model.graph.node}
    before, after = run(given.teacher.graph, given.images), run(model.SerializeToString(), given.images)
    np.testing.assert_allclose(before, after, atol=1e-4)


def test_a_histogram_agrees_with_numpy() -> None:
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((4, 2000)).astype(np.float32) * scale for scale in (1, 3, 0.5, 8)]
    histogram = Histogram.empty()
    for batch in batches:
        histogram.add(batch)
    values = np.concatenate([batch.ravel() for batch in batches])
    assert histogram.range("minmax") == Range(float(values.min()), float(values.max()))
    width = 2 * histogram.limit / len(histogram.counts)
    for method, tail in (("p99.9", 0.05), ("p99.99", 0.005)):
        found = histogram.range(method)  # type: ignore[arg-type]
        assert found.low == pytest.approx(np.percentile(values, tail, method="inverted_cdf"), abs=2 * width)
        assert found.high == pytest.approx(
            np.percentile(values, 100 - tail, method="inverted_cdf"), abs=2 * width
        )


def test_the_least_squared_error_is_found_by_brute_force_too() -> None:
    values = np.random.default_rng(0).standard_t(2, (1, 8000)).astype(np.float32)
    histogram = Histogram.empty()
    histogram.add(values)

    def error(r: Range) -> float:
        step = (r.high - r.low) / 255
        codes = np.clip(np.rint((values - r.low) / step), 0, 255)
        return float(((r.low + codes * step - values) ** 2).sum())

    tried = [Range(float(values.min()) * f, float(values.max()) * f) for f in np.linspace(0.2, 1, 81)]
    assert error(histogram.range("mse")) <= 1.02 * min(map(error, tried))


def test_a_dead_value_has_a_scale_and_a_constant_one_keeps_zero() -> None:
    assert Affine.of(Range(0.0, 0.0)) == Affine(np.float32(1), 0)
    histogram = Histogram.empty()
    histogram.add(np.full((2, 5), 3.0, np.float32))
    assert histogram.range("minmax") == Range(0.0, 3.0)
    assert histogram.range("mse").low == 0.0


def test_no_two_codes_of_one_sign_overflow() -> None:
    weight = np.random.default_rng(0).standard_normal((6, 5, 3, 3)).astype(np.float32)
    weight[2] = 0
    for per_channel in (True, False):
        codes, scales = quantize_weight(weight, 0, per_channel=per_channel, pairs=True)
        rows = codes.reshape(6, -1).astype(int)
        for row in rows:
            top, bottom = np.sort(np.maximum(row, 0))[-2:].sum(), np.sort(np.maximum(-row, 0))[-2:].sum()
            assert 255 * max(top, bottom) <= 2**15 - 1
        scale = scales.reshape((-1, 1, 1, 1)) if per_channel else scales
        assert np.abs(codes * scale - weight).max() <= 0.5 * scale.max() + 1e-6
    assert not codes[2].any()
    full, _ = quantize_weight(weight, 0, per_channel=True, pairs=False)
    assert np.abs(full).max() == 127


def test_signed_and_unsigned_weights_give_the_same_answers() -> None:
    """The signed kernel of processors without VNNI cuts sums; the unsigned one never does. They must
    agree.
    """
    given = calibration(width=32)
    model = onnx.ModelProto.FromString(
        IntegerFactory(given).make(StaticRecipe("channel", "minmax", False)).content
    )
    signed = run(model.SerializeToString(), given.images)
    stored = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if (
            node.op_type == "DequantizeLinear"
            and stored.get(node.input[0], onnx.TensorProto()).data_type == 3
        ):
            codes, zero = stored[node.input[0]], f"{node.input[0]}:middle"
            raised = numpy_helper.to_array(codes).astype(np.int16) + 128
            codes.CopyFrom(numpy_helper.from_array(raised.astype(np.uint8), codes.name))
            middle = np.full(tuple(stored[node.input[1]].dims), 128, np.uint8)
            model.graph.initializer.append(numpy_helper.from_array(middle, zero))
            node.input[2:] = [zero]
    np.testing.assert_array_equal(signed, run(model.SerializeToString(), given.images))


def test_what_has_no_integer_kernel_is_counted() -> None:
    from onnx import TensorProto, helper

    weight = numpy_helper.from_array(np.ones((4, 3, 1, 1), np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"]),
        helper.make_node("HardSwish", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["y"]),
    ]
    second = numpy_helper.from_array(np.ones((4, 4, 1, 1), np.float32), "v")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", None, 8, 8]) for n in ("x", "y"))
    plan = make_plan(helper.make_graph(nodes, "g", [x], [y], [weight, second]), float_ends=False)
    assert plan.kept_float == {"HardSwish": 1}
    assert plan.kernels == (0, 2)
    assert set(plan.ranged) == {"x", "a", "b", "y"}


def test_codes_of_weights_are_made_once_for_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.deploy import integer_graph, integers

    calls: Counter[str] = Counter()
    quantize, count = integer_graph.quantize_weight, integers.integer_layers

    def quantized(*given: Any, **options: Any) -> Any:
        calls["weights"] += 1
        return quantize(*given, **options)

    def counted(content: bytes) -> int:
        calls["sessions"] += 1
        return count(content)

    monkeypatch.setattr(integer_graph, "quantize_weight", quantized)
    monkeypatch.setattr(integers, "integer_layers", counted)
    factory = IntegerFactory(calibration())
    recipes = [StaticRecipe("channel", m, e) for m in RANGE_METHODS for e in (False, True)]
    shared = [factory.make(recipe) for recipe in recipes]
    assert calls == {"weights": 4, "sessions": 2}
    for recipe, made in zip(recipes[::3], shared[::3], strict=True):
        alone = IntegerFactory(calibration()).make(recipe)
        assert alone.content == made.content
        assert alone.facts == made.facts


def test_nan_activations_are_refused() -> None:
    given = calibration()
    given.images[3, 0, 0, 0] = np.nan
    with pytest.raises(UserError, match="nan or infinite within calibration images"):
        IntegerFactory(given).make(StaticRecipe("channel", "minmax", False))


def test_too_few_images_are_refused(tmp_path: object) -> None:
    with pytest.raises(UserError, match="has 3 images"):
        read_calibration(tiny_teacher(), tmp_path / "x.npy", 3)  # type: ignore[operator]
