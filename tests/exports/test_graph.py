"""The packed file: its values against plain NumPy formulas and onnx's own evaluator, its bytes, its
layouts.
"""

from __future__ import annotations

import json
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.exports.graph import container_bits, float_model, pack_model
from engine.exports.parity import (
    Comparison,
    check_weights,
    rounding_limit,
    run_file,
    runtime_checks,
)
from engine.exports.sizes import check_sizes, measure_sizes
from engine.family.recipes import parse_slug
from engine.teacher.agreement import random_images
from engine.teacher.apart import Way
from engine.types import Teacher, UserError
from tests.awkward_teacher import AXES, awkward_teacher
from tests.judged import judged_probabilities
from tests.tiny_teacher import tiny_teacher

SLUGS = (
    "b2-tensor-q99",
    "b2-channel-q100",
    "b3-channel-q99.5-ends",
    "b4-channel-q99",
    "b5-tensor-q100-ends",
    "b7-channel-q99",
    "b8-channel-q100",
)


@pytest.fixture(scope="module")
def awkward() -> Teacher:
    return awkward_teacher()


def _formula(weights: np.ndarray, axes: tuple[int, ...] | None, bits: int, percentile: float) -> np.ndarray:
    """code * scale by the paper's formula, one slice at a time."""
    result, top = np.empty_like(weights), 2 ** (bits - 1) - 1
    slices = (
        [np.s_[...]]
        if axes is None
        else [
            tuple(position[axes.index(axis)] if axis in axes else slice(None) for axis in range(weights.ndim))
            for position in np.ndindex(*(weights.shape[axis] for axis in axes))
        ]
    )
    for part in slices:
        exact = np.percentile(np.abs(weights[part].astype(np.float64)), percentile) / top
        # an integer has no negative zero
        codes = np.clip(np.rint(weights[part].astype(np.float64) / exact), -top, top) + 0.0
        result[part] = codes.astype(np.float32) * np.float32(exact)
    return result


def _kernels_in(model: onnx.ModelProto, names: list[str]) -> dict[str, np.ndarray]:
    """The kernels as onnx's reference evaluator unpacks them from the file."""
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
    while not set(model.graph.node[-1].output) & set(names):
        model.graph.node.pop()
    nodes = [node for node in model.graph.node if node.output[0].split(":")[0] in names]
    del model.graph.node[:], model.graph.input[:]
    model.graph.node.extend(nodes)
    return dict(zip(names, ReferenceEvaluator(model).run(None, {}), strict=True))


def test_awkward_layouts_are_what_they_claim(awkward: Teacher) -> None:
    assert {kernel.name: kernel.axes for kernel in awkward.kernels} == AXES
    assert {kernel.name: kernel.groups for kernel in awkward.kernels}["up"] == 2


@pytest.mark.parametrize("slug", ["b2-tensor-q99", "b2-channel-q100", "b4-channel-q99", "b6-channel-q99.5"])
def test_file_holds_the_formula_bit_for_bit(awkward: Teacher, slug: str) -> None:
    recipe = parse_slug(slug)
    names = [kernel.name for kernel in awkward.kernels]
    found = _kernels_in(onnx.ModelProto.FromString(pack_model(awkward, recipe).content), names)
    for kernel in awkward.kernels:
        weights = awkward.weights[kernel.name]
        if recipe.granularity == "tensor":
            expected = _formula(weights, None, recipe.bits, recipe.percentile)
        elif kernel.name == "up":  # two groups of six inputs and five outputs: ten channels
            split = weights.reshape(2, 6, 5, 2, 2)
            expected = _formula(split, (0, 2), recipe.bits, recipe.percentile).reshape(weights.shape)
        else:
            expected = _formula(weights, kernel.axes, recipe.bits, recipe.percentile)
        assert found[kernel.name].tobytes() == expected.tobytes(), kernel.name


@pytest.mark.parametrize("make", [tiny_teacher, awkward_teacher])
@pytest.mark.parametrize("slug", SLUGS)
def test_every_way_to_run_it_gives_the_judged_probabilities(make: type, slug: str) -> None:
    teacher, recipe = make(), parse_slug(slug)
    content = pack_model(teacher, recipe).content
    images = random_images(5, teacher.preprocessing, 1)
    checks = list(
        runtime_checks(
            content, Comparison(images, judged_probabilities(teacher, recipe, images), teacher.output)
        )
    )
    assert len(checks) == 9
    assert all(check.passed for check in [*checks, check_weights(content, teacher, recipe)]), checks


@pytest.mark.parametrize(
    ("bits", "max_opset", "name"),
    [(2, 25, "INT2"), (2, 24, "INT4"), (3, 25, "INT4"), (4, 21, "INT4"), (5, 25, "INT8"), (8, 21, "INT8")],
)
def test_containers_and_opset(bits: int, max_opset: int, name: str) -> None:
    recipe = parse_slug(f"b{bits}-channel-q100")
    packed = pack_model(tiny_teacher(), recipe, max_opset=max_opset)
    model = onnx.ModelProto.FromString(packed.content)
    assert (model.opset_import[0].version, model.ir_version) == ((25, 13) if name == "INT2" else (21, 10))
    codes = {tensor.name: tensor for tensor in model.graph.initializer}["stem:codes"]
    assert TensorProto.DataType.Name(codes.data_type) == name
    assert len(codes.raw_data) == np.prod(codes.dims) * container_bits(bits, max_opset) // 8
    assert bool(packed.notes) == (container_bits(bits, max_opset) != bits)
    assert ("2-bit" in " ".join(packed.notes)) == (bits == 2 and max_opset < 25)


def test_codes_are_packed_low_bits_first() -> None:
    """onnx and ml_dtypes unpack the raw bytes to the codes of the formula."""
    teacher = tiny_teacher()
    for slug, dtype in (("b2-tensor-q100", ml_dtypes.int2), ("b4-tensor-q100", ml_dtypes.int4)):
        recipe = parse_slug(slug)
        model = onnx.ModelProto.FromString(pack_model(teacher, recipe).content)
        tensor = next(item for item in model.graph.initializer if item.name == "head:codes")
        codes = numpy_helper.to_array(tensor)
        assert codes.dtype == dtype
        top = 2 ** (recipe.bits - 1) - 1
        weights = teacher.weights["head"].astype(np.float64)
        expected = np.rint(weights / (np.abs(weights).max() / top)).reshape(-1)
        np.testing.assert_array_equal(codes.astype(np.int8), expected)


def test_same_input_same_bytes_and_traces_are_dropped() -> None:
    teacher = tiny_teacher()
    model = onnx.ModelProto.FromString(teacher.graph)
    model.graph.node[0].metadata_props.add(key="stack_trace", value="/home/someone/secret.py")
    model.graph.doc_string = "/home/someone"
    traced = replace(teacher, graph=model.SerializeToString())
    recipe = parse_slug("b4-tensor-q99")
    contents = [pack_model(item, recipe).content for item in (teacher, teacher, traced)]
    assert contents[0] == contents[1]
    assert b"someone" not in contents[2]
    assert b"someone" not in float_model(traced)


def test_file_describes_itself() -> None:
    teacher, recipe = tiny_teacher(), parse_slug("b3-channel-q99-ends")
    model = onnx.ModelProto.FromString(pack_model(teacher, recipe).content)
    facts = {item.key.removeprefix("anchorpoint."): item.value for item in model.metadata_props}
    assert json.loads(facts["class_names"]) == list(teacher.class_names)
    assert type(teacher.preprocessing).from_json(facts["preprocessing"]) == teacher.preprocessing
    assert (facts["recipe"], facts["teacher"], model.producer_name) == (
        recipe.slug,
        teacher.fingerprint,
        "anchorpoint",
    )
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "batch"
    assert {node.domain for node in model.graph.node} == {""}


@pytest.mark.parametrize("slug", SLUGS)
def test_weights_take_what_they_need(awkward: Teacher, slug: str) -> None:
    recipe = parse_slug(slug)
    sizes = measure_sizes(awkward, recipe, pack_model(awkward, recipe).content, 25)
    assert check_sizes(sizes).passed
    assert sum(sizes.by_type.values()) == sizes.weights < sizes.file
    assert sizes.theory <= sizes.needed * 1.001


def test_refusals_say_what_to_do() -> None:
    teacher = tiny_teacher()
    with pytest.raises(UserError, match="opset 21 or newer"):
        pack_model(teacher, parse_slug("b4-tensor-q99"), max_opset=20)
    with pytest.raises(UserError, match="last axis"):
        pack_model(teacher, parse_slug("b4-lastaxis-q99"))
    model = onnx.ModelProto.FromString(teacher.graph)
    model.opset_import[0].version = 22
    with pytest.raises(UserError, match=r"Raise the highest opset to .*--max-opset"):
        pack_model(
            replace(teacher, graph=model.SerializeToString()), parse_slug("b4-tensor-q99"), max_opset=21
        )


def test_certificate_catches_activation_quantization() -> None:
    """Without the Reshape, onnxruntime runs DequantizeLinear -> MatMul with quantized activations; the checks
    must notice.
    """
    rng = np.random.default_rng(0)
    codes = rng.integers(-7, 8, (256, 32)).astype(np.int8)
    scales = rng.uniform(0.01, 0.05, (8, 32)).astype(np.float32)
    packed = (codes.reshape(-1, 2)[:, 0] & 15) | (codes.reshape(-1, 2)[:, 1] << 4)
    initializers = [
        helper.make_tensor(
            "codes", TensorProto.INT4, codes.shape, packed.astype(np.uint8).tobytes(), raw=True
        ),
        numpy_helper.from_array(scales, "scales"),
    ]
    nodes = [
        helper.make_node("DequantizeLinear", ["codes", "scales"], ["w"], axis=0, block_size=32),
        helper.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "unprotected",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 256])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 32])],
        initializers,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    images = rng.standard_normal((6, 256)).astype(np.float32)
    logits = images.astype(np.float64) @ (codes * np.repeat(scales, 32, axis=0)).astype(np.float64)
    judged = np.exp(logits - logits.max(axis=1, keepdims=True))
    judged /= judged.sum(axis=1, keepdims=True)
    checks = {
        check.name: check
        for check in runtime_checks(model.SerializeToString(), Comparison(images, judged, "logits"))
    }
    assert checks["onnxruntime, optimization disabled"].passed
    assert not checks["onnxruntime, default options"].passed


def test_limit_widens_only_as_far_as_the_float_graph_itself_moves() -> None:
    teacher = tiny_teacher()
    images = random_images(4, teacher.preprocessing, 0)
    assert rounding_limit(teacher.graph, images, teacher.output) == 1e-5
    model = onnx.ModelProto.FromString(teacher.graph)
    head = next(tensor for tensor in model.graph.initializer if tensor.name == "head")
    # logits whose last digits decide
    head.CopyFrom(numpy_helper.from_array(teacher.weights["head"] * np.float32(1e4), "head"))
    limit = rounding_limit(model.SerializeToString(), images, teacher.output)
    runs = [
        run_file(model.SerializeToString(), images, teacher.output, Way(level))
        for level in ("disabled", "all")
    ]
    assert 1e-5 <= limit <= 1e-3
    assert limit >= min(1e-3, 8 * np.abs(runs[0] - runs[1]).max())


def test_divergence_below_zero_by_rounding_is_shown_as_zero() -> None:
    teacher = tiny_teacher()
    images = random_images(4, teacher.preprocessing, 0)
    probs = run_file(teacher.graph, images, teacher.output)
    for factor, passed in (
        (1 - 1e-9, True),
        (1 - 1e-3, False),
    ):  # expected rows that sum to less than 1 make KL negative
        checks = {
            check.name: check
            for check in runtime_checks(teacher.graph, Comparison(images, probs * factor, teacher.output))
        }
        found = checks["KL divergence"]
        assert found.value is not None
        assert (found.passed, found.value == 0.0, "is 0 on average" in found.sentence) == (
            passed,
            passed,
            passed,
        )
