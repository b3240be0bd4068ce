"""Corrected candidates: what layers read, biases that give a channel its mean back, rounding that keeps
outputs.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from engine.deploy.calibration import Calibration, calibrate_on
from engine.deploy.clipping import clipped
from engine.deploy.mended import MendingFactory
from engine.deploy.mixed import MixedFactory
from engine.deploy.moments import _layers, collect_moments, mean_shift
from engine.deploy.rounding import optimised
from engine.deploy.shifting import constants_behind, give_biases
from engine.family.kinds import CorrectedRecipe, MixedRecipe
from engine.family.quantize import channel_rows, dequantize
from engine.types import Recipe, Teacher, UserError
from tests.tiny_teacher import tiny_teacher

RECIPE = Recipe(3, 100.0, "channel", False)


@pytest.fixture
def calibration() -> Calibration:
    images = np.random.default_rng(3).standard_normal((48, 3, 16, 16)).astype(np.float32)
    return calibrate_on(tiny_teacher(width=12), images)


def values(model: onnx.ModelProto, names: list[str], images: np.ndarray) -> dict[str, np.ndarray]:
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    present = {item.name for item in watched.graph.output}
    watched.graph.output.extend(
        onnx.helper.make_empty_tensor_value_info(name) for name in names if name not in present
    )
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(watched.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return dict(zip(names, session.run(names, {"x": images}), strict=True))


def graph_of(teacher: Teacher) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(teacher.graph)


def test_moments_say_what_the_layers_put_out(calibration: Calibration) -> None:
    """mean(W x) = W mean(x), and the second moments give the mean square of the outputs: onnxruntime's
    own.
    """
    teacher, layers = calibration.teacher, collect_moments(calibration)
    assert set(layers) == set(teacher.weights)
    seen = values(graph_of(teacher), ["a", "d", "e"], calibration.images)
    # at 16 x 16 every second position is taken, so the figures are those of a sample
    for name, output in (("stem", "a"), ("depthwise", "d"), ("point", "e")):
        layer, weights = layers[name], teacher.weights[name]
        expected = seen[output].mean(axis=(0, 2, 3))
        scale = float(np.sqrt((seen[output] ** 2).mean()))
        np.testing.assert_allclose(mean_shift(layer, weights), expected, atol=0.1 * scale)
        rows = channel_rows(weights, layer.kernel).reshape(layer.groups, -1, layer.second.shape[1])
        power = np.einsum("goi,gij,goj->go", rows, layer.second, rows).reshape(-1)
        np.testing.assert_allclose(power, (seen[output] ** 2).mean(axis=(0, 2, 3)), rtol=0.25)


@pytest.mark.parametrize("bits", [2, 3, 4])
@pytest.mark.parametrize("name", ["stem", "depthwise", "point", "head"])
def test_optimised_rounding_changes_outputs_less(calibration: Calibration, name: str, bits: int) -> None:
    layer = collect_moments(calibration)[name]
    weights = calibration.teacher.weights[name]

    def change(made: np.ndarray) -> float:
        gap = channel_rows(made - weights, layer.kernel).reshape(layer.groups, -1, layer.second.shape[1])
        return float(np.einsum("goi,gij,goj->", gap, layer.second, gap))

    ours = optimised(weights, layer, bits)
    top = 2 ** (bits - 1) - 1
    assert np.abs(ours.codes).max() <= top
    assert change(dequantize(ours)) <= change(dequantize(clipped(weights, layer.kernel, bits).quantized))


def test_corrected_biases_give_each_channel_its_mean_back(calibration: Calibration, tmp_path: Path) -> None:
    factory = MendingFactory(calibration, MixedFactory(calibration, tmp_path))
    teacher = calibration.teacher
    mended = onnx.ModelProto.FromString(factory.make(CorrectedRecipe(RECIPE, "bc")).content)
    places = constants_behind(graph_of(teacher).graph)
    assert {c.name: c.factor.tolist() for c in places.values()} == {"bn.mean": [-1], "head.bias": [1]}
    before = values(graph_of(teacher), ["b"], calibration.images)["b"].mean(axis=(0, 2, 3))
    after = values(mended, ["b"], calibration.images)["b"].mean(axis=(0, 2, 3))
    plain = onnx.ModelProto()
    plain.CopyFrom(mended)
    stored = {t.name: t for t in graph_of(teacher).graph.initializer}
    for tensor in plain.graph.initializer:
        if tensor.name in ("bn.mean", "head.bias"):
            tensor.CopyFrom(stored[tensor.name])
    uncorrected = values(plain, ["b"], calibration.images)["b"].mean(axis=(0, 2, 3))
    assert np.abs(after - before).max() < 0.3 * np.abs(uncorrected - before).max()


def test_only_the_integers_differ_in_an_optimised_file(calibration: Calibration, tmp_path: Path) -> None:
    factory = MendingFactory(calibration, MixedFactory(calibration, tmp_path))
    made = factory.make(CorrectedRecipe(RECIPE, "opt"))
    stored = {t.name: numpy_helper.to_array(t) for t in graph_of(calibration.teacher).graph.initializer}
    written = {t.name: t for t in onnx.ModelProto.FromString(made.content).graph.initializer}
    for name in ("bn.mean", "bn.bias", "head.bias"):
        np.testing.assert_array_equal(numpy_helper.to_array(written[name]), stored[name])
    assert made.notes == ("4 of 4 layers were rounded with what they read on calibration images.",)
    assert made.facts["calibration_images"] == list(calibration.digests)


def test_a_mixed_candidate_can_be_rounded_so_too(calibration: Calibration, tmp_path: Path) -> None:
    mixed = MixedFactory(calibration, tmp_path)
    factory = MendingFactory(calibration, mixed)
    plain, rounded = mixed.make(MixedRecipe(0.3)), factory.make(MixedRecipe(0.3, True))
    assert set(plain.facts["allocation"]) == set(rounded.facts["allocation"])
    assert rounded.weight_bytes <= 0.3 * calibration.teacher.float_bytes * 1.00001
    assert plain.content != rounded.content


def keras_like() -> onnx.GraphProto:
    """A depthwise kernel in Keras layout, reshaped and transposed on its way, and BatchNorm as a factor and
    a summand; then a convolution with nothing behind it that could take a shift up.
    """
    rng = np.random.default_rng(0)
    stored = {
        "kernel": rng.standard_normal((3, 3, 4, 2)).astype(np.float32),
        "turned": np.array([3, 3, 1, 8], np.int64),
        "factor": rng.uniform(0.5, 2, (1, 8, 1, 1)).astype(np.float32),
        "summand": rng.standard_normal((1, 8, 1, 1)).astype(np.float32),
        "last": rng.standard_normal((5, 8, 1, 1)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["kernel", "turned"], ["moved"]),
        helper.make_node("Transpose", ["moved"], ["weight"], perm=[3, 2, 0, 1]),
        helper.make_node("Conv", ["x", "weight"], ["a"], group=4, auto_pad="SAME_UPPER", strides=[2, 2]),
        helper.make_node("Mul", ["a", "factor"], ["b"]),
        helper.make_node("Add", ["b", "summand"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Conv", ["d", "last"], ["y"]),
    ]
    x, y = (onnx.helper.make_tensor_value_info(n, 1, ["n", c, None, None]) for n, c in (("x", 4), ("y", 5)))
    tensors = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    return helper.make_graph(nodes, "keras", [x], [y], tensors)


def test_a_kernel_that_is_reshaped_on_its_way_is_read_too() -> None:
    graph = keras_like()
    images = np.abs(np.random.default_rng(1).standard_normal((6, 4, 7, 7))).astype(np.float32)
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    seen = values(model, ["a", "c", "y"], images)
    layers = {layer.kernel.name: layer for layer in _layers(graph)}
    layers["kernel"].n_images = len(images)
    layers["kernel"].add(images)
    layers["kernel"].mean /= len(images)
    np.testing.assert_allclose(
        mean_shift(layers["kernel"], stored["kernel"]), seen["a"].mean(axis=(0, 2, 3)), rtol=1e-4
    )
    # shifting the constants shifts the very outputs
    shift = np.arange(8, dtype=np.float32)
    place = constants_behind(graph)["a"]
    assert place.name == "summand"
    next(t for t in graph.initializer if t.name == "summand").CopyFrom(
        numpy_helper.from_array(place.shifted(shift), "summand")
    )
    assert give_biases(graph, {"y": np.ones(5)}) == 20
    moved = values(
        helper.make_model(graph, opset_imports=model.opset_import, ir_version=10), ["c", "y"], images
    )
    expected = (seen["a"] + shift[:, None, None]) * stored["factor"] + stored["summand"]
    np.testing.assert_allclose(moved["c"], expected, rtol=1e-4, atol=1e-4)
    product = np.einsum("oi,nihw->nohw", stored["last"][:, :, 0, 0], np.maximum(expected, 0)) + 1
    np.testing.assert_allclose(moved["y"], product, rtol=1e-3, atol=1e-3)


def test_a_shared_constant_is_left_alone() -> None:
    graph = keras_like()
    graph.node.append(helper.make_node("Mul", ["y", "summand"], ["z"]))
    assert "a" not in constants_behind(graph)


def test_nan_inputs_of_a_layer_are_refused(calibration: Calibration) -> None:
    calibration.images[3, 0, 0, 0] = np.nan
    with pytest.raises(UserError, match="nan or infinite within calibration images"):
        collect_moments(calibration)
