"""Supervised rules against reference values, the literal Algorithm 1, and the limits of the coefficient."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, log_loss

from engine.rules import supervised as selectors
from engine.rules.sampling import control_permutation
from engine.rules.statistics import pool_statistics
from engine.rules.supervised import SUPERVISED, n_folds, sample_evidence, search_coefficient, select
from engine.types import LabeledSample, UserError
from tests import literal
from tests.families import random_arrays

REFERENCE = Path(__file__).parent / "reference"
VALUES = json.loads((REFERENCE / "values.json").read_text())
ANCHORED = [name for name, rule in SUPERVISED.items() if rule.grid is not None]


@pytest.fixture(scope="module")
def toy():
    with np.load(REFERENCE / "toy.npz") as arrays:
        return dict(arrays)


@pytest.fixture
def reference_evidence(toy, monkeypatch):
    def build(key):
        n = int(key.split("/")[0][1:])
        rows = toy["order"][:n]
        labels = (toy["y_pool"] if "clean" in key else toy["y_noisy"])[rows]
        # The reference drew its own permutation; ours comes from the protocol's seed, tested in
        # test_sampling.
        monkeypatch.setattr(selectors, "control_permutation", lambda _n, _r=0: toy[f"perm_{n}"])
        return sample_evidence(toy["pf_pool"], toy["P_pool"], LabeledSample(rows, labels))

    return build


@pytest.mark.parametrize("key", VALUES["supervised"])
def test_reference_terms(key, reference_evidence):
    evidence, expected = reference_evidence(key), VALUES["supervised"][key]
    terms = {
        "ce": evidence.loss,
        "acc": evidence.correct,
        "align": evidence.alignment,
        "align_lab": evidence.label_part,
        "align_teach": evidence.teacher_part,
        "perm_residual": evidence.permuted,
    }
    for name, term in terms.items():
        np.testing.assert_allclose(np.mean(term, axis=1), expected[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("key", VALUES["supervised"])
def test_reference_direct_validation(key, reference_evidence, toy):
    evidence, expected = reference_evidence(key), VALUES["supervised"][key]
    names, anchor = tuple(toy["names"]), pool_statistics(toy["pf_pool"], toy["P_pool"]).distortion
    assert select("val-ce", evidence, anchor, names).index == expected["val_ce_pick"]
    by_accuracy = select("val-acc", evidence, anchor, names)
    assert by_accuracy.index == expected["val_acc_pick"]
    assert by_accuracy.ties == len(expected["val_acc_tied"])


@pytest.mark.parametrize("key", VALUES["algorithm1"])
def test_reference_algorithm1(key, reference_evidence, toy):
    sample_key, method = key.rsplit("/", 1)
    expected, evidence = VALUES["algorithm1"][key], reference_evidence(sample_key)
    anchor = pool_statistics(toy["pf_pool"], toy["P_pool"]).distortion
    choice = select(method, evidence, anchor, tuple(toy["names"]))
    np.testing.assert_allclose(choice.cv_losses, expected["cv_loss"], rtol=0, atol=1e-9)
    assert (choice.coefficient, choice.index) == (expected["chosen_coef"], expected["chosen_index"])
    search = search_coefficient(
        anchor, SUPERVISED[method].term(evidence), evidence.loss, SUPERVISED[method].grid
    )
    np.testing.assert_array_equal(search.fold_picks, expected["fold_picks"])


def _sample(seed, labels, n):
    return LabeledSample(rows := np.random.default_rng(seed).permutation(len(labels))[:n], labels[rows])


@pytest.mark.parametrize("method", SUPERVISED)
@pytest.mark.parametrize("n", [2, 9, 26])
def test_literal_loops_agree(method, n):
    teacher, candidates, labels = random_arrays(n, n_candidates=6)
    sample = _sample(n, labels, n)
    evidence = sample_evidence(teacher, candidates, sample)
    order = control_permutation(n)
    term = [
        [
            literal.supervised_term(
                method, teacher[r], p[r], y, permuted=(teacher[sample.rows[o]], sample.labels[o])
            )
            for r, y, o in zip(sample.rows, sample.labels, order, strict=True)
        ]
        for p in candidates
    ]
    np.testing.assert_allclose(SUPERVISED[method].term(evidence), term, atol=1e-12)
    anchor = np.array([literal.distortion(teacher, p) for p in candidates])
    choice = select(method, evidence, anchor, tuple("abcdef"))
    if SUPERVISED[method].grid is None:
        scores = np.mean(term, axis=1)
    else:
        coefficient, cv_losses = literal.algorithm1(
            anchor, term, evidence.loss, SUPERVISED[method].grid.tolist()
        )
        assert choice.coefficient == coefficient
        np.testing.assert_allclose(choice.cv_losses, cv_losses, atol=1e-12)
        scores = anchor + coefficient * np.mean(term, axis=1)
    assert choice.index == int(np.argmin(scores))
    np.testing.assert_allclose(choice.scores, scores, atol=1e-12)


def test_direct_validation_is_scikit_learns():
    teacher, candidates, labels = random_arrays(7)
    sample = _sample(1, labels, 30)
    evidence = sample_evidence(teacher, candidates, sample)
    for m, probs in enumerate(candidates[1:], start=1):
        seen = probs[sample.rows]
        assert np.mean(evidence.loss[m]) == pytest.approx(
            log_loss(sample.labels, seen, labels=range(4)), abs=1e-12
        )
        assert np.mean(evidence.correct[m]) == accuracy_score(sample.labels, seen.argmax(axis=1))


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(2, 40))
def test_limits_of_the_coefficient(seed, n):
    teacher, candidates, labels = random_arrays(seed)
    evidence = sample_evidence(teacher, candidates, _sample(seed, labels, n))
    anchor = pool_statistics(teacher, candidates).distortion
    at_zero = search_coefficient(anchor, evidence.loss, evidence.loss, np.array([0.0]))
    assert (at_zero.fold_picks == np.argmin(anchor)).all()
    huge = search_coefficient(anchor, evidence.loss, evidence.loss, np.array([1e12]))
    for column, fold in zip(huge.fold_picks.T, np.array_split(np.arange(n), n_folds(n)), strict=True):
        kept = np.setdiff1d(np.arange(n), fold)
        train = np.mean(evidence.loss[:, kept], axis=1)
        assert train[column[0]] == pytest.approx(train.min(), abs=1e-9)


def test_budget_restricts_the_search_and_the_pick():
    teacher, candidates, labels = random_arrays(11)
    evidence = sample_evidence(teacher, candidates, _sample(0, labels, 30))
    anchor = pool_statistics(teacher, candidates).distortion
    mask = np.array([True, True, True, True, False, False, False, False])
    choice = select("ce-combo", evidence, anchor, tuple("abcdefgh"), admissible=mask)
    alone = select(
        "ce-combo",
        sample_evidence(teacher, candidates[:4], _sample(0, labels, 30)),
        anchor[:4],
        tuple("abcd"),
    )
    assert (choice.index, choice.coefficient) == (alone.index, alone.coefficient)
    np.testing.assert_array_equal(choice.cv_losses, alone.cv_losses)
    assert np.isnan(choice.scores[4:]).all()
    assert np.isfinite(choice.scores[:4]).all()
    with pytest.raises(UserError, match="budget"):
        select("ce-combo", evidence, anchor, tuple("abcdefgh"), admissible=np.zeros(8, dtype=bool))


@pytest.mark.parametrize("method", ANCHORED)
def test_one_label_returns_the_anchor(method):
    teacher, candidates, labels = random_arrays(2)
    anchor = pool_statistics(teacher, candidates).distortion
    choice = select(
        method, sample_evidence(teacher, candidates, _sample(0, labels, 1)), anchor, tuple("abcdefgh")
    )
    assert (choice.index, choice.coefficient, choice.cv_losses) == (int(np.argmin(anchor)), 0.0, None)


def test_identical_candidates_tie_and_the_first_wins():
    teacher, candidates, labels = random_arrays(3)
    twice = np.concatenate([candidates[5:6], candidates[5:6], candidates[:1]])
    evidence = sample_evidence(teacher, twice, _sample(0, labels, 26))
    for method in SUPERVISED:
        choice = select(method, evidence, pool_statistics(teacher, twice).distortion, tuple("abc"))
        if choice.index != 2:
            assert (choice.index, choice.ties, choice.runner_up, choice.margin) == (0, 2, 1, 0.0)


def test_folds():
    assert [n_folds(n) for n in (2, 9, 10, 24, 25, 300)] == [2, 9, 10, 10, 5, 5]
