"""Label noise of every kind: its rate, where it falls and towards what, against counts made here."""

import numpy as np
import pytest

from engine.predictions.file import make_predictions
from engine.rules.sampling import corrupt_labels
from engine.study.protocol.noise import (
    ANNOTATOR_RATES,
    CONFUSION,
    DISAGREEMENT,
    MATRIX,
    NOISE_KINDS,
    UNIFORM,
    label_noise,
    teacher_confusion,
)
from engine.types import Predictions, UserError
from tests.families import random_arrays

RING = [[0.0, 1.0, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 1.0], [1.0, 0, 0, 0]]


@pytest.fixture(scope="module")
def family() -> Predictions:
    teacher, candidates, labels = random_arrays(4, n_images=4000)
    return make_predictions(teacher, candidates, labels=labels)


@pytest.mark.parametrize("kind", NOISE_KINDS)
@pytest.mark.parametrize("rate", [0.1, 0.4])
def test_labels_are_wrong_at_the_asked_rate_and_the_same_again(
    family: Predictions, kind: str, rate: float
) -> None:
    noise, rows = label_noise(kind, family, RING), np.arange(4000)
    first, again, other = (noise.corrupt(rows, rate, r) for r in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.any(first != other)
    assert np.mean(first != family.labels) == pytest.approx(rate, abs=0.03)
    assert first.min() >= 0
    assert first.max() < 4


@pytest.mark.parametrize("kind", NOISE_KINDS)
def test_no_noise_leaves_every_label(family: Predictions, kind: str) -> None:
    rows = np.arange(200)
    np.testing.assert_array_equal(label_noise(kind, family, RING).corrupt(rows, 0.0), family.labels[rows])


def test_uniform_noise_is_the_protocols(family: Predictions) -> None:
    rows = np.array([5, 3, 99, 7])
    drawn = label_noise(UNIFORM, family).corrupt(rows, 0.4, 3)
    np.testing.assert_array_equal(drawn, corrupt_labels(family.labels[rows], 4, 0.4, 3))


def test_confusion_follows_the_teachers_mean_probabilities_by_class(family: Predictions) -> None:
    """Counted over a large pool, wrong labels of a class fall as the teacher spreads its mass there."""
    observed = label_noise(CONFUSION, family).corrupt(np.arange(4000), 0.4)
    expected = teacher_confusion(family.teacher, family.labels)
    for label in range(4):
        mass = np.array([family.teacher[family.labels == label, k].mean() for k in range(4)])
        mass[label] = 0
        np.testing.assert_allclose(expected[label], mass / mass.sum(), atol=0.02)
        wrong = observed[(family.labels == label) & (observed != label)]
        counts = np.bincount(wrong, minlength=4) / len(wrong)
        np.testing.assert_allclose(counts, expected[label], atol=0.07)


def test_a_stated_matrix_is_obeyed(family: Predictions) -> None:
    observed = label_noise(MATRIX, family, RING).corrupt(np.arange(4000), 0.3)
    wrong = observed != family.labels
    np.testing.assert_array_equal(observed[wrong], (family.labels[wrong] + 1) % 4)


def test_a_class_with_an_empty_row_stays_right(family: Predictions) -> None:
    observed = label_noise(MATRIX, family, [[0.0] * 4, *RING[1:]]).corrupt(np.arange(4000), 0.3)
    assert np.all(observed[family.labels == 0] == 0)
    assert np.mean(observed != family.labels) == pytest.approx(0.3, abs=0.03)


@pytest.mark.parametrize("matrix", [None, [[0.0, 1], [1, 0]], [[0, -1.0, 0, 0], *RING[1:]]])
def test_a_matrix_that_does_not_fit_is_refused(family: Predictions, matrix: list[list[float]] | None) -> None:
    with pytest.raises(UserError, match="matrix"):
        label_noise(MATRIX, family, matrix)


def test_hard_images_carry_the_errors(family: Predictions) -> None:
    """Images on which candidates disagree are wrong far more often than those on which they do not."""
    observed = label_noise(DISAGREEMENT, family).corrupt(np.arange(4000), 0.2)
    answers = family.candidates.argmax(axis=2)
    top = np.array([np.bincount(column, minlength=4).max() for column in answers.T])
    wrong, split = observed != family.labels, np.median(top)
    assert wrong[top < split].mean() > 1.5 * wrong[top > split].mean()


def test_annotators_differ_as_stated(family: Predictions) -> None:
    noise = label_noise("annotators", family)
    assert noise.propensity is not None
    wrong = np.mean([noise.corrupt(np.arange(4000), 0.2, r) != family.labels for r in range(20)], axis=0)
    for share in ANNOTATOR_RATES:
        hand = np.isclose(noise.propensity, share, rtol=0.1)
        assert wrong[hand].mean() == pytest.approx(0.2 * share, rel=0.15)
