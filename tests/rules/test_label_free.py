"""Label-free rules against reference values, literal loops, POT, scikit-learn-free linear algebra, and their
edges.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from engine.rules.label_free import (
    HIGHEST_PRECISION,
    LABEL_FREE,
    atc_mc,
    estimate,
    estimate_all,
    pick_best,
    precision_order,
)
from engine.rules.statistics import pool_statistics
from engine.types import UserError
from tests import literal
from tests.families import random_arrays, softmax

REFERENCE = Path(__file__).parent / "reference"
TOLERANCE = {"cot": 5e-8, "nuclear-norm": 1e-8}


@pytest.fixture(scope="module")
def toy():
    with np.load(REFERENCE / "toy.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def values():
    return json.loads((REFERENCE / "values.json").read_text())


@pytest.mark.parametrize("rule", LABEL_FREE)
def test_reference_values(rule, toy, values):
    pool = pool_statistics(toy["pf_pool"], toy["P_pool"])
    expected = values["label_free"][rule]
    verdict = estimate(rule, LABEL_FREE[rule].score(pool), LABEL_FREE[rule].better)
    np.testing.assert_allclose(verdict.scores, expected["scores"], rtol=0, atol=TOLERANCE.get(rule, 1e-9))
    assert (verdict.pick, verdict.better) == (expected["pick"], expected["better"])


EDGES = json.loads((REFERENCE / "edge_cases.json").read_text())
EDGE_NAMES = {
    "nuclear-norm": "nuclear",
    "softmax-corr": "softmaxcorr",
    "cot": "cot",
    "avg-confidence": "avg_conf",
    "entropy": "neg_entropy",
    "distortion": "kl",
    "atc-mc": "atc_mc_official_neginf",
    "atc-ne": "atc_ne_official_neginf",
}


@pytest.mark.parametrize("case", EDGES, ids=lambda name: name.split("(")[0])
def test_edge_cases(case):
    edge = EDGES[case]
    pool = pool_statistics(
        np.array(edge["teacher"]), np.array(edge["rows"])[None], calibration=len(edge["cal"])
    )
    for rule, key in EDGE_NAMES.items():
        np.testing.assert_allclose(
            LABEL_FREE[rule].score(pool)[0], edge[key], rtol=0, atol=TOLERANCE.get(rule, 1e-9), err_msg=rule
        )


@pytest.mark.parametrize("seed", range(3))
def test_literal_loops_agree(seed):
    teacher, candidates, _ = random_arrays(seed, n_candidates=5, n_images=31, n_classes=6)
    pool = pool_statistics(teacher, candidates, calibration=13)
    for rule, expected in literal.label_free(teacher, candidates, 13).items():
        np.testing.assert_allclose(LABEL_FREE[rule].score(pool), expected, atol=1e-9, err_msg=rule)


def test_transport_is_the_linear_programs_optimum():
    teacher, candidates, _ = random_arrays(5, n_candidates=3, n_images=17, n_classes=4)
    pool = pool_statistics(teacher, candidates)
    for probs, score in zip(candidates, LABEL_FREE["cot"].score(pool), strict=True):
        n, k = probs.shape
        rows = np.kron(np.eye(n), np.ones(k))
        columns = np.kron(np.ones(n), np.eye(k))
        solution = linprog(
            -probs.ravel(),
            A_eq=np.vstack([rows, columns]),
            b_eq=np.concatenate([np.full(n, 1 / n), np.full(k, 1 / k)]),
            method="highs",
        )
        assert score == pytest.approx(1 + solution.fun, abs=1e-9)


def test_teacher_as_candidate_has_zero_distortion():
    teacher, candidates, _ = random_arrays(1)
    assert pool_statistics(teacher, candidates).distortion[-1] == pytest.approx(0, abs=1e-15)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n_images=st.integers(2, 30), n_classes=st.integers(2, 7))
def test_row_and_class_order_do_not_matter(seed, n_images, n_classes):
    teacher, candidates, _ = random_arrays(seed, n_candidates=4, n_images=n_images, n_classes=n_classes)
    split = n_images // 2
    rng = np.random.default_rng(seed)
    # Rows move within their own split: the calibration split is part of ATC's and DOC's definition.
    rows = np.concatenate([rng.permutation(split), split + rng.permutation(n_images - split)])
    classes = rng.permutation(n_classes)
    pool = pool_statistics(teacher, candidates)
    by_row = pool_statistics(teacher[rows], candidates[:, rows])
    by_class = pool_statistics(teacher[:, classes], candidates[:, :, classes])
    for name, rule in LABEL_FREE.items():
        np.testing.assert_allclose(rule.score(by_row), rule.score(pool), atol=1e-9, err_msg=name)
        if name.startswith("atc") or name == "doc":
            continue  # a tie for the largest probability may change the predicted class with the class order
        np.testing.assert_allclose(rule.score(by_class), rule.score(pool), atol=1e-9, err_msg=name)


def test_saturated_collapse_fools_atc_only_through_ties():
    teacher, candidates, _ = random_arrays(3)
    pool = pool_statistics(teacher, candidates)
    assert atc_mc(pool)[0] == 1
    assert atc_mc(pool, strict=True)[0] == 0


def test_collapsed_spectrum_is_exact():
    rng = np.random.default_rng(0)
    probs = softmax(np.array([30.0, 0, 0, 0, 0]) + 1e-6 * rng.normal(size=(50, 5)))
    pool = pool_statistics(probs, probs[None])
    assert LABEL_FREE["nuclear-norm"].score(pool)[0] == pytest.approx(literal.nuclear_norm(probs), abs=1e-12)


def test_ties_go_to_the_lowest_index_and_are_counted():
    assert pick_best(np.array([1.0, 0.5, 0.5]), "lower") == (1, 2)
    assert pick_best(np.array([1.0, 0.5, 1.0]), "higher") == (0, 2)
    assert pick_best(np.array([1.0, 0.5, 0.7]), "lower", np.array([True, False, True])) == (2, 1)
    with pytest.raises(UserError, match="budget"):
        pick_best(np.array([1.0]), "lower", np.array([False]))


def test_highest_precision_follows_the_recipe_or_the_cost():
    names = (
        "b8-tensor-q100-ends",
        "b8-channel-q99.5-ends",
        "b8-channel-q100",
        "b8-channel-q100-ends",
        "b4-channel-q100-ends",
    )
    assert int(np.argmax(precision_order(names))) == 3
    assert int(np.argmax(precision_order(("a", "b"), np.array([0.9, 0.2])))) == 0
    with pytest.raises(UserError, match="slug"):
        precision_order(("a", "b"))
    teacher, candidates, _ = random_arrays(0)
    assert HIGHEST_PRECISION not in estimate_all(
        pool_statistics(teacher, candidates), [f"x{i}" for i in range(8)]
    )


def test_an_empty_calibration_split_uses_the_whole_pool():
    teacher, candidates, _ = random_arrays(2)
    whole = pool_statistics(teacher, candidates, calibration=len(teacher))
    empty = pool_statistics(teacher, candidates, calibration=0)
    for rule in ("atc-mc", "atc-ne", "doc"):
        np.testing.assert_array_equal(LABEL_FREE[rule].score(empty), LABEL_FREE[rule].score(whole))


def test_one_image_is_enough():
    teacher, candidates, _ = random_arrays(4, n_images=1)
    pool = pool_statistics(teacher, candidates)
    assert all(np.isfinite(rule.score(pool)).all() for rule in LABEL_FREE.values())
