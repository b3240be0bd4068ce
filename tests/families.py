"""Small random families for tests: a noisy teacher and candidates that range from faithful to collapsed."""

import numpy as np

from engine.predictions.file import make_predictions
from engine.types import Predictions


def softmax(logits: np.ndarray) -> np.ndarray:
    exp = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return exp / exp.sum(axis=-1, keepdims=True)


def random_arrays(
    seed: int, n_candidates: int = 8, n_images: int = 40, n_classes: int = 4
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return teacher (N, K), candidates (M, N, K) and labels (N,); candidate 0 collapses to one class, the
    last is the teacher.
    """
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n_images)
    signal = 2.0 * np.eye(n_classes)[labels] + rng.normal(size=(n_images, n_classes))
    noise = (
        rng.normal(size=(n_candidates, n_images, n_classes))
        * np.linspace(2.5, 0, n_candidates)[:, None, None]
    )
    logits = signal * np.linspace(0.4, 1.5, n_candidates)[:, None, None] + noise
    if n_candidates > 1:
        logits[0] = 0.0
        logits[0, :, 0] = 60.0
    candidates, teacher = softmax(logits), softmax(1.5 * signal)
    candidates[-1] = teacher
    return teacher, candidates, labels


def random_family(seed: int, **sizes: int) -> Predictions:
    """Return a checked family with labels, costs and a test part drawn the same way."""
    teacher, candidates, labels = random_arrays(seed, **sizes)
    half = len(labels) // 2
    return make_predictions(
        teacher[:half],
        candidates[:, :half],
        labels=labels[:half],
        cost=np.linspace(0.06, 0.9, len(candidates)),
        teacher_test=teacher[half:],
        candidates_test=candidates[:, half:],
        labels_test=labels[half:],
    )
