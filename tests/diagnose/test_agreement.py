"""Agreement with the reference against counting by hand, and what counts as chance."""

from __future__ import annotations

import numpy as np
import pytest

from engine.diagnose.agreement import agreements, chance_problems
from engine.predictions.file import make_predictions


def rows(classes: list[int], k: int) -> np.ndarray:
    return np.eye(k, dtype=np.float32)[classes]


def test_shares_and_chance_are_counted() -> None:
    teacher = rows([0, 0, 1, 2], 3)
    same, other = rows([0, 0, 1, 2], 3), rows([0, 1, 1, 1], 3)
    found = agreements(make_predictions(teacher, np.stack([same, other]), names=["same", "other"]))
    assert [(a.name, a.share) for a in found] == [("same", 1.0), ("other", 0.5)]
    # by class shares 1/2, 1/4, 1/4 of the teacher
    assert found[0].chance == pytest.approx(1 / 4 + 1 / 16 + 1 / 16)
    assert found[1].chance == pytest.approx(1 / 2 * 1 / 4 + 1 / 4 * 3 / 4)


def test_independent_answers_and_constant_ones_are_chance() -> None:
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 5, 400)
    guess, constant = rng.integers(0, 5, 400), np.zeros(400, int)
    half = np.where(rng.random(400) < 0.5, classes, guess)
    stack = np.stack([rows(list(c), 5) for c in (guess, constant, half)])
    found = agreements(make_predictions(rows(list(classes), 5), stack, names=["guess", "constant", "half"]))
    assert [a.is_chance for a in found] == [True, True, False]
    sentences = chance_problems(found, "the teacher")
    assert [sentence.split()[0] for sentence in sentences] == ["guess", "constant"]
    assert "not prepared as they were when it was trained" in sentences[0]


def test_a_whole_folder_at_chance_is_one_sentence() -> None:
    teacher, other = rows([0, 1, 2, 0], 3), rows([1, 2, 0, 1], 3)
    found = agreements(make_predictions(teacher, np.stack([other] * 24)))
    (sentence,) = chance_problems(found, "the consensus of the candidates")
    assert "24 files (candidate-0, candidate-1, candidate-2 and 21 more) agree" in sentence


def test_full_agreement_is_never_held_against_a_candidate() -> None:
    teacher = rows([1, 1, 1], 3)
    found = agreements(make_predictions(teacher, np.stack([teacher, rows([0, 0, 0], 3)])))
    assert [a.is_chance for a in found] == [False, True]
