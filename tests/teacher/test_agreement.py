"""How far an imported graph may be from its source: rounding that large scores magnify passes, a wrong graph
does not. The source is the same graph in onnx's reference evaluator, which sums in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from engine.teacher.agreement import MAX_PROBABILITY_DIFFERENCE, MistranslatedError, examine
from engine.types import Preprocessing, Teacher, UserError
from tests.hostile.onnx_files import _loop, classifier
from tests.tiny_teacher import tiny_teacher

SIZE = Preprocessing(16, 16)


def evaluated(model: onnx.ModelProto) -> Callable[[Any], Any]:
    evaluator = ReferenceEvaluator(model)
    return lambda images: np.asarray(evaluator.run(None, {model.graph.input[0].name: images})[0])


def graph_of(teacher: Teacher) -> onnx.ModelProto:
    return onnx.ModelProto.FromString(teacher.graph)


def scaled(name: str, factor: float, model: onnx.ModelProto) -> onnx.ModelProto:
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in changed.graph.initializer:
        if tensor.name == name:
            array = numpy_helper.to_array(tensor) * np.float32(factor)
            tensor.CopyFrom(numpy_helper.from_array(array, name))
    return changed


def twins(gain: float) -> onnx.ModelProto:
    model, rng = graph_of(tiny_teacher(n_classes=40, gain=gain, seed=3)), np.random.default_rng(0)
    for tensor in model.graph.initializer:
        if tensor.name in ("head", "head.bias"):
            array = numpy_helper.to_array(tensor).copy()
            array[20:] = array[:20] * (1 + 1e-6 * rng.standard_normal(array[:20].shape))
            tensor.CopyFrom(numpy_helper.from_array(array.astype(np.float32), tensor.name))
    return model


def test_an_ordinary_graph_agrees_without_a_word_about_it() -> None:
    model = graph_of(tiny_teacher())
    assert examine(model, SIZE, evaluated(model)).notes == (
        "The model returns logits; a softmax is applied to them.",
    )


@pytest.fixture(scope="module")
def loud() -> onnx.ModelProto:
    """Scores so large that rounding alone moves probabilities by more than the usual limit: every class has a
    twin whose weights differ by a few roundings, so that the best two are never far apart.
    """
    return twins(1e4)


def test_the_limit_follows_the_rounding_of_the_float_graph_and_says_so(loud: onnx.ModelProto) -> None:
    note = examine(loud, SIZE, evaluated(loud)).notes[-1]
    assert f"The usual limit is {MAX_PROBABILITY_DIFFERENCE:g}; it was raised to" in note
    assert "differs from itself by" in note


@pytest.mark.parametrize("name", ["stem", "depthwise", "point", "bn.bias", "head"])
@pytest.mark.parametrize("gain", [3.0, 1e4])
def test_a_wrong_graph_is_refused_however_loud_it_is(name: str, gain: float) -> None:
    model = twins(gain)
    with pytest.raises(MistranslatedError, match="disagrees with the source model"):
        examine(scaled(name, 1.01, model), SIZE, evaluated(model))


def test_a_source_of_another_shape_is_refused() -> None:
    model = graph_of(tiny_teacher())
    with pytest.raises(MistranslatedError, match=r"\(2, 4\) where the source model returns \(2, 3\)"):
        examine(model, SIZE, lambda images: np.zeros((len(images), 3), np.float32))


def test_a_loop_that_takes_long_for_each_image_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each batch would be within its limit, and the run would take days."""
    node = helper.make_node("Add", ["state", "nothing"], ["next"])
    stored = {"n": np.int64(2), "always": np.bool_(True), "nothing": np.float32(0)}
    model = classifier(
        [_loop([node], "x", 0)],
        image="big",
        stored={name: np.asarray(value) for name, value in stored.items()},
    )
    assert examine(model, Preprocessing(8, 8), None).n_classes == 4
    monkeypatch.setattr("engine.teacher.agreement._LONGEST_LOOP", 0.0)
    with pytest.raises(UserError, match="has a Loop"):
        examine(model, Preprocessing(8, 8), None)
    assert examine(classifier(), Preprocessing(8, 8), None).n_classes == 4
