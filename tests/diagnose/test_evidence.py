"""Structural checks and teacher sanity on hand-made arrays: each problem is said when it is there, and only
then.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.diagnose.evidence import evidence_problems, structural_problems, teacher_problems
from engine.rules.streaming import blocks
from engine.types import Predictions

N, K, M = 60, 5, 6


def family(seed: int = 0) -> Predictions:
    """A healthy family: the label's class is the likely one, a little less so for each candidate."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, N)
    logits = (
        rng.standard_normal((M + 1, N, K))
        + 2.5 * np.eye(K)[labels] * np.linspace(1, 0.6, M + 1)[:, None, None]
    )
    probs = np.exp(logits) / np.exp(logits).sum(axis=2, keepdims=True)
    return Predictions(
        probs[0].astype(np.float32),
        probs[1:].astype(np.float32),
        labels,
        tuple(f"g{i}" for i in range(M)),
        N // 2,
    )


def test_a_healthy_family_has_no_problem() -> None:
    healthy = family()
    assert structural_problems(healthy) == []
    assert teacher_problems(healthy.teacher) == []
    assert structural_problems(replace(healthy, labels=np.full(N, -1))) == []


def test_blocks_of_rows_say_what_all_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    flat = np.full((N, K), 1 / K, np.float32)
    flat[0] = np.eye(K)[0]
    odd = [flat, np.eye(K, dtype=np.float32)[np.arange(N) % K], np.tile(flat[1], (N, 1))]
    whole = [teacher_problems(probs) for probs in odd]
    assert all(whole)
    monkeypatch.setattr("engine.diagnose.evidence.blocks", lambda n, k: blocks(n, k, 3 * k))
    assert [teacher_problems(probs) for probs in odd] == whole


def test_missing_candidates_are_counted_and_named() -> None:
    (problem,) = structural_problems(replace(family(), missing=("b2-tensor-q99", "b3-tensor-q99")))
    assert "2 of 8 candidates are missing (b2-tensor-q99 and b3-tensor-q99)" in problem


def test_identical_candidates_are_named() -> None:
    base = family()
    twins = base.candidates.copy()
    twins[4] = twins[1]
    (problem,) = structural_problems(replace(base, candidates=twins))
    assert problem.startswith("g1 and g4 give identical outputs")
    twins[5] = twins[2]
    (problem,) = structural_problems(replace(base, candidates=twins))
    assert problem.endswith("one model under several names: g1 = g4 and g2 = g5.")
    (problem,) = structural_problems(replace(base, candidates=np.repeat(base.candidates[:1], M, axis=0)))
    assert problem.startswith("All 6 candidates give identical outputs")


def test_candidates_alike_only_at_first_are_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.diagnose.evidence._GLANCE", N // 2)
    healthy = family()
    candidates = healthy.candidates.copy()
    candidates[:, : N // 2] = healthy.teacher[: N // 2]
    assert structural_problems(replace(healthy, candidates=candidates)) == []


def test_a_candidate_that_is_the_teacher_is_named() -> None:
    base = family()
    copied = base.candidates.copy()
    copied[5] = base.teacher
    (problem,) = structural_problems(replace(base, candidates=copied))
    assert problem.startswith("g5 gives exactly the teacher’s outputs: it is not")


def test_everything_at_chance_needs_labels_enough() -> None:
    base = family()
    wrong = (base.labels + 1) % K
    (problem,) = structural_problems(replace(base, labels=wrong))
    assert "at chance on the 60 labeled images" in problem
    few = np.where(np.arange(N) < 10, wrong, -1)
    assert structural_problems(replace(base, labels=few)) == []


def test_constant_candidates() -> None:
    base = family()
    stuck = base.candidates.copy()
    stuck[..., 2] = 1.5
    stuck /= stuck.sum(axis=2, keepdims=True)
    problems = structural_problems(replace(base, candidates=stuck, labels=np.full(N, -1)))
    assert len(problems) == 1
    assert "one and the same class" in problems[0]


def test_a_teacher_that_does_not_see_the_images() -> None:
    (problem,) = teacher_problems(np.tile([0.7, 0.2, 0.1], (N, 1)))
    assert "same output" in problem


def test_a_uniform_teacher() -> None:
    noise = 1 / K + np.random.default_rng(0).uniform(-0.01, 0.01, (N, K))
    problems = teacher_problems(noise / noise.sum(axis=1, keepdims=True))
    assert any("almost uniform" in problem for problem in problems)


def test_a_teacher_stored_in_half_precision_is_judged_as_it_is() -> None:
    sure = family().teacher.copy()
    sure[:, 0] = 0.0  # a logarithm of 0 would make every comparison false
    assert teacher_problems(sure.astype(np.float16)) == []
    uniform = np.full((N, K), 1 / K, np.float16)
    uniform[:, 0] += np.linspace(0, 1e-3, N).astype(np.float16)
    assert "almost uniform" in teacher_problems(uniform)[0]


def test_a_saturated_teacher() -> None:
    classes = np.arange(N) % K
    probs = np.where(np.eye(K)[classes] == 1, 1 - 4e-6, 1e-6) * (1 + 1e-7 * np.arange(N)[:, None])
    (problem,) = teacher_problems(probs)
    assert "certain" in problem
    assert "100 % of the images" in problem


@pytest.mark.parametrize("names", [None, ("ant", "bee", "cat", "dog", "eel")])
def test_a_constant_teacher(names: tuple[str, ...] | None) -> None:
    probs = np.random.default_rng(0).dirichlet(np.ones(K), N)
    probs[:, 2] += 1
    (problem,) = teacher_problems(probs / 2, names)
    assert ("class 2" if names is None else "'cat'") in problem
    assert "100 % of the images" in problem


def test_a_few_images_prove_nothing() -> None:
    assert teacher_problems(np.tile([0.7, 0.2, 0.1], (5, 1))) == []


def test_everything_that_speaks_against_a_decision_is_in_one_list() -> None:
    sick = replace(family(), missing=("b2-tensor-q99",))
    assert evidence_problems(family()) == ()
    assert evidence_problems(sick) == tuple(structural_problems(sick))
