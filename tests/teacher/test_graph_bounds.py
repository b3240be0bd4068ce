"""Graphs beyond any classifier's are refused before a tool works on them, in moments and in one sentence."""

from __future__ import annotations

import time

import onnx
import pytest
from onnx import helper

from engine.teacher.graph_bounds import MAX_BATCH, MAX_NODES, require_batch, require_bounded
from engine.teacher.importers.onnx import import_graph
from engine.types import UserError
from tests.hostile.onnx_files import STATIC, classifier, many_nodes


@pytest.mark.parametrize("name", STATIC)
def test_hostile_graphs_are_refused_without_being_run(name: str) -> None:
    content = STATIC[name]().SerializeToString()
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        import_graph(content)
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 20


def test_the_plain_classifier_of_these_tests_is_a_teacher() -> None:
    assert import_graph(classifier().SerializeToString()).n_classes == 4


def test_nodes_are_counted_where_they_end_up() -> None:
    n_own = len(classifier().graph.node)
    require_bounded(many_nodes(MAX_NODES - n_own))
    with pytest.raises(UserError, match="operations"):
        require_bounded(many_nodes(MAX_NODES - n_own + 1))


def test_functions_count_as_often_as_they_are_called() -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])] * 100
    function = helper.make_function("own", "f", ["a"], ["b"], body, [helper.make_opsetid("", 21)])
    calls = [helper.make_node("f", ["x"], [f"v{i}"], domain="own") for i in range(600)]
    require_bounded(classifier(calls[:400], functions=[function]))
    with pytest.raises(UserError, match="unfolded"):
        require_bounded(classifier(calls, functions=[function]))


def test_nested_graphs_count() -> None:
    inner = onnx.GraphProto(name="inner")
    inner.node.extend([helper.make_node("Relu", ["x"], ["r"])] * MAX_NODES)
    with pytest.raises(UserError, match="operations"):
        require_bounded(classifier([helper.make_node("If", ["x"], ["z"], then_branch=inner)]))


def test_a_batch_size_that_can_be_run_is_accepted() -> None:
    require_batch(None)
    require_batch(MAX_BATCH)
    with pytest.raises(UserError, match="dynamic batch size"):
        require_batch(MAX_BATCH + 1)
