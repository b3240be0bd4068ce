"""Steady graphs: what common classifiers are made of, and nothing that loops, branches or measures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

from engine.teacher.steady import is_steady
from tests.hostile.onnx_files import RUNTIME, classifier, loops_on_white
from tests.tiny_teacher import tiny_teacher


def test_a_plain_classifier_is_steady() -> None:
    assert is_steady(classifier().SerializeToString())
    assert is_steady(tiny_teacher().graph)


@pytest.mark.parametrize("build", [*RUNTIME.values(), loops_on_white], ids=lambda build: build.__name__)
def test_what_allocates_or_loops_is_not(build: Callable[[], onnx.ModelProto]) -> None:
    assert not is_steady(build().SerializeToString())


def test_a_shape_must_be_stored_to_be_steady() -> None:
    flat = helper.make_node("Reshape", ["x", "shape"], ["image"])
    stored = {"shape": np.array([0, 3, 8, 8], np.int64)}
    assert is_steady(classifier([flat], image="image", stored=stored).SerializeToString())
    measured = helper.make_node("Cast", ["x"], ["shape"], to=7)
    assert not is_steady(classifier([measured, flat], image="image").SerializeToString())
