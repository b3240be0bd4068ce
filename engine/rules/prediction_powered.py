"""Validation with prediction-powered inference: the labels' mean loss, corrected by what the teacher expects
on the whole pool.

After Angelopoulos, Duchi and Zrnic, "PPI++: Efficient Prediction-Powered Inference" (2023), as a peer to
compare with. Sees arrays only.
"""

from __future__ import annotations

import numpy as np

from engine.types import Floats, Ints


def powered_mean(seen: Floats, expected: Floats, expected_pool: Floats) -> Floats:
    """Return the power-tuned estimate of each mean, (M,).

    seen (M, n) are the true values on the labeled rows, expected (M, n) their predictions there,
    expected_pool (M, N) on the whole pool. With λ between 0 (labels only) and 1 (plain PPI) the estimate is
    mean(seen) + λ·(mean(expected_pool) - mean(expected)); its variance is least at λ = Cov(seen, expected) /
    ((1 + n/N)·Var(expected)). The divisors (n, and n + N - 1) are those of the authors' ppi_py.
    """
    n, n_pool = seen.shape[1], expected_pool.shape[1]
    centred = expected - expected.mean(axis=1, keepdims=True)
    covariance = (centred * (seen - seen.mean(axis=1, keepdims=True))).mean(axis=1)
    variance = np.concatenate([expected, expected_pool], axis=1).var(axis=1, ddof=1)
    tuning = np.clip(covariance / np.maximum((1 + n / n_pool) * variance, 1e-12), 0, 1)
    return np.asarray(seen.mean(axis=1) + tuning * (expected_pool.mean(axis=1) - expected.mean(axis=1)))


def powered_losses(teacher: Floats, candidates: Floats, rows: Ints, labels: Ints, floor: float) -> Floats:
    """Return each candidate's estimated loss, (M,): the teacher's probabilities (N, K) predict the labels."""
    expected_pool = np.empty(candidates.shape[:2])
    seen = np.empty((len(candidates), len(rows)))
    p_teacher = np.asarray(teacher, dtype=np.float64)
    for m, probs in enumerate(candidates):
        losses = -np.log(np.maximum(np.asarray(probs, dtype=np.float64), floor))
        expected_pool[m] = np.einsum("nk,nk->n", p_teacher, losses)
        seen[m] = losses[rows, labels]
    return powered_mean(seen, expected_pool[:, rows], expected_pool)
