"""How labels go wrong in a study: anywhere alike, between classes that are confused, on images that are hard,
or by the hand that wrote them.

Sees one family's predictions and its true labels. Every kind is seeded: the same rate and repetition give the
same labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.rules.sampling import corrupt_labels
from engine.types import UNLABELED, Floats, Ints, Predictions, UserError

UNIFORM, CONFUSION, DISAGREEMENT, ANNOTATORS, MATRIX = (
    "uniform",
    "confusion",
    "disagreement",
    "annotators",
    "matrix",
)
NOISE_KINDS: dict[str, str] = {
    UNIFORM: "any label, any other class alike (the paper's)",
    CONFUSION: "a wrong label is the class that the teacher confuses with the true one",
    DISAGREEMENT: "labels of images on which the candidates disagree, towards what they answer",
    ANNOTATORS: "five annotators, from careful to careless, each with a habit",
    MATRIX: "a wrong label is drawn from the row of a stated matrix",
}
# Relative error rates of the annotators (mean 1): most errors come from one hand, as in crowd-sourced labels.
ANNOTATOR_RATES = (0.2, 0.4, 0.8, 1.2, 2.4)
HABIT = 0.5  # share of an annotator's errors that are always the same mistake for a class
MOST = 0.95  # no label is wrong more surely than this, however hard its image
# the former is the protocol's for uniform noise, here with a stream of its own
_SEED, _HANDS_SEED = (
    9_500,
    9_400,
)
_SMALLEST = 1e-3  # weight of a confusion that the teacher never makes


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """How wrong labels fall on a pool: labels (N,) are the true ones, UNLABELED where unknown.

    propensity (N,) is how much likelier than average a label is wrong, wrong (N, K) the chances of each wrong
    class, zero at the true one. Uniform noise needs neither and keeps the protocol's own draws.
    """

    labels: Ints
    n_classes: int
    propensity: Floats | None = None
    wrong: Floats | None = None

    def corrupt(self, rows: Ints, rate: float, repetition: int = 0) -> Ints:
        """Return the observed labels of some labeled rows, (n,), wrong at `rate` on average over the pool."""
        labels = self.labels[rows]
        if self.propensity is None or self.wrong is None:
            return corrupt_labels(labels, self.n_classes, rate, repetition)
        # The second number is this stream's own, so that it does not repeat the draws of uniform noise.
        rng = np.random.default_rng([_SEED + round(100 * rate) + repetition, 1])
        flip = rng.random(len(rows)) < self._chances(rate)[rows]
        steps = np.cumsum(self.wrong[rows], axis=1)
        other = (rng.random(len(rows))[:, None] * steps[:, -1:] >= steps).sum(axis=1)
        return np.where(flip & (steps[:, -1] > 0), np.minimum(other, self.n_classes - 1), labels)

    def _chances(self, rate: float) -> Floats:
        """Return each row's chance to be wrong, (N,), none above MOST, with mean `rate` over labeled rows."""
        assert self.propensity is not None
        labeled = self.labels != UNLABELED
        chances = np.minimum(rate * self.propensity, MOST)
        for _ in range(20):  # what the cap took away goes to the others
            short = rate / max(float(chances[labeled].mean()), 1e-12)
            chances = np.minimum(chances * short, MOST)
        return np.asarray(chances)


def label_noise(
    kind: str, predictions: Predictions, matrix: Sequence[Sequence[float]] | None = None
) -> LabelNoise:
    """Return the noise of a kind for a family's pool. Raises UserError if a stated matrix does not fit."""
    labels, n_classes = predictions.labels, predictions.n_classes
    if kind == UNIFORM:
        return LabelNoise(labels=labels, n_classes=n_classes)
    propensity: Floats = np.ones(len(labels))
    if kind == CONFUSION:
        wrong = teacher_confusion(predictions.teacher, labels)[labels]
    elif kind == MATRIX:
        stated = _stated(matrix, n_classes)
        wrong, propensity = stated[labels], (stated.sum(axis=1) > 0)[labels].astype(np.float64)
    elif kind == DISAGREEMENT:
        propensity, wrong = _hard_images(predictions)
    else:
        propensity, wrong = _hands(labels, n_classes)
    wrong = np.array(wrong, dtype=np.float64)
    wrong[np.arange(len(labels)), labels] = 0  # UNLABELED rows are never asked for
    mean = propensity[labels != UNLABELED].mean() if np.any(labels != UNLABELED) else 1.0
    return LabelNoise(
        labels=labels, n_classes=n_classes, propensity=propensity / max(float(mean), 1e-12), wrong=wrong
    )


def teacher_confusion(teacher: Floats, labels: Ints) -> Floats:
    """Return how the teacher confuses classes, (K, K): its mean probability of each wrong class, by true
    class.

    Rows sum to one, the diagonal is zero; a class without labels is confused with all others alike.
    """
    n_classes = teacher.shape[1]
    confusion = np.full((n_classes, n_classes), _SMALLEST)
    for label in np.unique(labels[labels != UNLABELED]):
        confusion[label] += np.asarray(teacher[labels == label], dtype=np.float64).mean(axis=0)
    np.fill_diagonal(confusion, 0)
    return np.asarray(confusion / confusion.sum(axis=1, keepdims=True))


def _stated(matrix: Sequence[Sequence[float]] | None, n_classes: int) -> Floats:
    given = np.array(matrix if matrix is not None else [[]], dtype=np.float64)
    if given.shape != (n_classes, n_classes):
        raise UserError(
            f"the noise matrix has {' x '.join(map(str, given.shape))} numbers; this family has {n_classes}"
            f" classes, so {n_classes} x {n_classes} are needed.",
            "Give one row for each true class, one column for each wrong one.",
            option="noise",
        )
    if not np.isfinite(given).all() or (given < 0).any():
        raise UserError(
            "the noise matrix holds a negative number or none at all in some place.",
            "Give weights of 0 or more.",
            option="noise",
        )
    np.fill_diagonal(given, 0)
    return given


def _hard_images(predictions: Predictions) -> tuple[Floats, Floats]:
    """Propensity = share of candidates outvoted on an image; wrong classes as the candidates answer on
    average.
    """
    answers = np.asarray(predictions.candidates).argmax(axis=2)
    votes = np.stack([(answers == label).mean(axis=0) for label in range(predictions.n_classes)], axis=1)
    return 1 - votes.max(axis=1) + _SMALLEST, np.asarray(predictions.candidates, dtype=np.float64).mean(
        axis=0
    )


def _hands(labels: Ints, n_classes: int) -> tuple[Floats, Floats]:
    """Each image is labeled by one of the annotators; half of a hand's errors on a class are its habitual
    one.
    """
    rng = np.random.default_rng(_HANDS_SEED)
    hand = rng.integers(0, len(ANNOTATOR_RATES), len(labels))
    habits = (
        np.arange(n_classes) + rng.integers(1, n_classes, (len(ANNOTATOR_RATES), n_classes))
    ) % n_classes
    wrong = np.full((len(labels), n_classes), (1 - HABIT) / (n_classes - 1))
    wrong[np.arange(len(labels)), habits[hand, labels]] += HABIT
    return np.array(ANNOTATOR_RATES)[hand], wrong
