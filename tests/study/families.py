"""Synthetic families for the study's tests: a Dirichlet teacher and candidates that drift from it, seeded."""

from __future__ import annotations

import numpy as np

from engine.family.recipes import standard_family
from engine.predictions.file import make_predictions
from engine.types import Predictions


def make_family(
    seed: int = 0,
    *,
    n_candidates: int = 12,
    n_pool: int = 60,
    n_test: int = 80,
    n_classes: int = 5,
    duplicates: bool = False,
    dtype: str = "float32",
) -> Predictions:
    """Return a family whose low-index candidates are noisy and overconfident and whose last ones follow the
    teacher.

    `duplicates` repeats candidates and makes a third of them saturated one-hot rows, so that every rule meets
    exact ties.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    labels = rng.integers(0, n_classes, n_pool + n_test)
    logits = rng.normal(size=(len(labels), n_classes))
    logits[np.arange(len(labels)), labels] += 1.5
    teacher = _softmax(2.0 * logits)
    candidates = []
    for m in range(n_candidates):
        damage = 3.0 * (1 - m / n_candidates)
        temperature = 0.6 + 1.8 * rng.random()
        candidates.append(_softmax((2.0 * logits + damage * rng.normal(size=logits.shape)) / temperature))
    stacked = np.stack(candidates)
    if duplicates:
        for m in range(0, n_candidates, 3):
            stacked[m] = np.eye(n_classes)[
                rng.integers(0, n_classes, len(labels)) if m % 2 else np.full(len(labels), m % n_classes)
            ]
        stacked[n_candidates // 2 :] = stacked[: n_candidates - n_candidates // 2]
    names = tuple(recipe.slug for recipe in standard_family()[-n_candidates:])
    costs = np.linspace(0.08, 0.3, n_candidates)
    return make_predictions(
        teacher[:n_pool].astype(dtype),
        stacked[:, :n_pool].astype(dtype),
        labels=labels[:n_pool],
        names=names,
        cost=costs,
        teacher_test=teacher[n_pool:].astype(dtype),
        candidates_test=stacked[:, n_pool:].astype(dtype),
        labels_test=labels[n_pool:],
    )


def _softmax(logits: np.ndarray) -> np.ndarray:
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)
