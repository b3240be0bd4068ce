"""A teacher as plain data: JSON and back, with and without its graph."""

from __future__ import annotations

import json

import numpy as np

from engine.family.cost import costs
from engine.family.recipes import standard_family
from engine.teacher.facts import facts_of, read_facts, teacher_of
from tests.tiny_teacher import tiny_teacher


def test_facts_survive_json_and_rebuild_the_same_teacher() -> None:
    teacher = tiny_teacher()
    again = teacher_of(json.loads(json.dumps(facts_of(teacher))), teacher.graph)
    assert again.fingerprint == teacher.fingerprint
    assert (again.preprocessing, again.class_names, again.notes) == (
        teacher.preprocessing,
        teacher.class_names,
        teacher.notes,
    )
    for kernel in teacher.kernels:
        assert np.array_equal(again.weights[kernel.name], teacher.weights[kernel.name])


def test_without_a_graph_it_can_be_costed_and_takes_no_memory() -> None:
    teacher = tiny_teacher()
    outline = read_facts(json.loads(json.dumps(facts_of(teacher))))
    assert np.array_equal(costs(outline, standard_family()), costs(teacher, standard_family()))
    assert not hasattr(outline, "weights")
    assert outline.fingerprint == teacher.fingerprint


def test_facts_from_before_there_was_a_hash_have_no_fingerprint() -> None:
    facts = facts_of(tiny_teacher())
    del facts["model_sha256"]
    assert read_facts(facts).fingerprint == ""
