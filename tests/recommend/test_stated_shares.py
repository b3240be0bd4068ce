"""Where somebody knows how frequent the classes are, `auto` takes their word: the references have the stated
shares, and a long tail no longer misleads.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.decide.choose import choose, statistics_of
from engine.decide.kept import kept_arrays, statistics_from
from engine.predictions.file import load_predictions, make_predictions, save_predictions
from engine.recommend.auto import prepare
from engine.recommend.hypotheses import TEMPERATURES, calibrated_pool
from engine.rules.statistics import pool_statistics
from engine.types import LabeledSample, Predictions, UserError
from tests.families import softmax
from tests.synthetic_family import synthetic_predictions

SHARES = np.array([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.01])


def test_every_hypothesis_has_the_stated_shares() -> None:
    predictions = synthetic_predictions(n_images=300)
    pool = calibrated_pool(
        predictions.teacher,
        pool_statistics(predictions.teacher, predictions.candidates),
        class_shares=SHARES,
    )
    assert len(pool.ref) == 3 * len(TEMPERATURES)
    assert not pool.learned.any()
    usual = (pool.temperature > 0.5) & (pool.temperature < 3)  # the outermost get there slowly
    means = pool.references(np.arange(300), which=np.flatnonzero(usual)).mean(axis=1)
    np.testing.assert_allclose(means, np.broadcast_to(SHARES, means.shape), atol=0.02)
    np.testing.assert_allclose(pool.evenness, 0.01 / 0.4)  # output shape takes classes for equally frequent


def test_stating_equal_shares_leaves_the_even_hypotheses_alone() -> None:
    predictions = synthetic_predictions()
    pool = pool_statistics(predictions.teacher, predictions.candidates)
    unknown = calibrated_pool(predictions.teacher, pool)
    equal = calibrated_pool(predictions.teacher, pool, class_shares=np.full(10, 0.1))
    even = (unknown.evenness == 1) & ~unknown.learned
    np.testing.assert_allclose(equal.expected, unknown.expected[even])
    np.testing.assert_allclose(equal.bias, unknown.bias[even])


def long_tail(seed: int) -> tuple[Predictions, np.ndarray]:
    """A 20:1 long tail; the teacher leans towards rare classes, candidates lean by more and less."""
    rng = np.random.default_rng(seed)
    shares = 20.0 ** -np.linspace(0, 1, 6)
    shares /= shares.sum()
    labels = rng.choice(6, 900, p=shares)
    logits = rng.normal(size=(900, 6))
    logits[np.arange(900), labels] += 2
    leaning = np.linspace(-1.5, 1.5, 13)[:, None, None] * np.linspace(-1, 1, 6)
    probs = softmax(logits + leaning)
    parts = {"teacher_test": probs[8, 300:], "candidates_test": probs[:, 300:], "labels_test": labels[300:]}
    return make_predictions(probs[8, :300], probs[:, :300], labels=labels[:300], **parts), shares


def regret(predictions: Predictions, pick: int) -> float:
    assert predictions.candidates_test is not None
    assert predictions.labels_test is not None
    rows = np.arange(len(predictions.labels_test))
    losses = -np.log(predictions.candidates_test[:, rows, predictions.labels_test]).mean(axis=1)
    return float(losses[pick] - losses.min())


def test_knowing_the_shares_pays_on_a_long_tail() -> None:
    unknown, stated = [], []
    for seed in range(8):
        predictions, shares = long_tail(seed)
        rows = np.random.default_rng(seed).choice(300, 10, replace=False)
        sample = LabeledSample(rows, predictions.labels[rows])
        unknown.append(regret(predictions, choose("auto", predictions, sample).index))
        known = replace(predictions, class_shares=shares)
        stated.append(regret(known, choose("auto", known, sample).index))
    assert np.mean(stated) < 0.5 * np.mean(unknown)


def test_the_answer_says_what_was_stated(tmp_path: Path) -> None:
    predictions = replace(synthetic_predictions(), class_shares=SHARES)
    path = tmp_path / "family.npz"
    save_predictions(predictions, path)
    again = load_predictions(path)
    np.testing.assert_allclose(again.class_shares, SHARES)
    choice = choose("auto", again, LabeledSample(np.arange(12), again.labels[:12]))
    assert choice.details["class_shares"] == "stated"
    np.testing.assert_allclose(choice.details["stated_shares"], SHARES)
    assert "as frequent as was stated" in choice.details["reasons"][0]
    silent = choose("auto", replace(again, class_shares=None))
    assert silent.details["class_shares"] == "unknown"
    assert "stated" not in silent.details["reasons"][0]


def test_two_statements_on_one_pool_are_kept_apart() -> None:
    predictions = synthetic_predictions()
    pool = statistics_of(predictions)
    stated = prepare(replace(predictions, class_shares=SHARES), pool)
    assert prepare(predictions, pool) is not stated
    assert prepare(replace(predictions, class_shares=SHARES), pool) is stated
    assert prepare(replace(predictions, class_shares=np.full(10, 0.1)), pool) is not stated


def test_a_large_family_keeps_what_was_prepared_with_the_statement() -> None:
    predictions = replace(synthetic_predictions(), class_shares=SHARES)
    kept = kept_arrays(statistics_of(predictions), SHARES)
    sample = LabeledSample(np.arange(12), predictions.labels[:12])
    direct = choose("auto", predictions, sample)
    later = choose("auto", predictions, sample, pool=statistics_from(predictions, kept))
    assert later.index == direct.index
    np.testing.assert_allclose(later.scores, direct.scores)


@pytest.mark.parametrize("bad", [np.ones(9), -np.ones(10)])
def test_a_file_with_bad_shares_is_refused(bad: np.ndarray) -> None:
    predictions = synthetic_predictions()
    with pytest.raises(UserError, match="class_shares"):
        make_predictions(predictions.teacher, predictions.candidates, class_shares=bad)
