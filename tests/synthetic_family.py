"""A made-up family with the paper's shape, in milliseconds: low-bit candidates are sure and wrong, high-bit
ones follow a fair teacher.
"""

from __future__ import annotations

import numpy as np

from engine.family.cost import costs
from engine.family.recipes import standard_family
from engine.predictions.file import make_predictions
from engine.types import Floats, Predictions
from tests.tiny_teacher import tiny_teacher


def softmax(logits: Floats) -> Floats:
    """Probabilities of logits, over the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def synthetic_predictions(
    n_images: int = 120, n_classes: int = 10, n_test: int = 0, seed: int = 0, *, labeled: bool = True
) -> Predictions:
    """Return predictions of the standard 72 candidates on a made-up pool, with true labels (or none) and an
    optional test part.
    """
    rng = np.random.default_rng(seed)
    n = n_images + n_test
    labels = rng.integers(0, n_classes, n)
    logits = rng.normal(0, 1.5, (n, n_classes))
    logits[np.arange(n), labels] += 2.5
    family = standard_family()
    candidates = np.empty((len(family), n, n_classes), np.float32)
    for m, recipe in enumerate(family):
        damage = (
            12.0
            * 2.0 ** -(recipe.bits - 1)
            * (1.4 if recipe.granularity == "tensor" else 1.0)
            * (0.8 if recipe.float_ends else 1.0)
        )
        bias = np.zeros(n_classes)
        bias[m % n_classes] = 4 * damage * (recipe.bits <= 3)
        candidates[m] = softmax(0.8 * logits + rng.normal(0, damage, (n, n_classes)) + bias)
    teacher = softmax(1.6 * logits).astype(np.float32)
    test = {
        "teacher_test": teacher[n_images:],
        "candidates_test": candidates[:, n_images:],
        "labels_test": labels[n_images:],
    }
    return make_predictions(
        teacher[:n_images],
        candidates[:, :n_images],
        labels=labels[:n_images] if labeled else np.full(n_images, -1),
        names=[recipe.slug for recipe in family],
        cost=costs(tiny_teacher(n_classes), family),
        **(test if n_test else {}),
    )
