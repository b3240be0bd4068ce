"""The label-free scores that supervised rules can shrink toward: the teacher's distortion, and three
alternatives.

Sees arrays only. The default is the distortion on the complete pool, whatever the number of labels.
"""

from __future__ import annotations

import numpy as np

from engine.rules.statistics import FLOOR, PoolStatistics
from engine.types import Floats, Ints, LabeledSample

ANCHORS = {
    "pool": "teacher distortion on the complete pool",
    "sample": "teacher distortion on the labeled sample only",
    "subsample": "teacher distortion on an independent subsample as large as the labeled sample",
    "cot": "optimal transport (COT), rescaled to the range of the distortion",
}
_SUBSAMPLE_SEED, _SEED_STRIDE = 300_000, 7_919


def anchor_scores(
    kind: str,
    teacher: Floats,
    pool: PoolStatistics,
    sample: LabeledSample,
    *,
    floor: float = FLOOR,
    repetition: int = 0,
) -> Floats:
    """Return one anchor score per candidate (M,), in nats, lower is better. `kind` is a key of ANCHORS."""
    if kind == "pool":
        return pool.distortion
    if kind == "cot":
        return rescale(pool.transport, pool.distortion)
    if kind == "sample":
        return mean_distortion(teacher, pool.candidates, sample.rows, floor=floor)
    if kind == "subsample":
        rng = np.random.Generator(np.random.PCG64(_SUBSAMPLE_SEED + _SEED_STRIDE * sample.n + repetition))
        return mean_distortion(
            teacher, pool.candidates, rng.choice(len(teacher), sample.n, replace=False), floor=floor
        )
    raise ValueError(f"unknown anchor {kind!r}")


def mean_distortion(teacher: Floats, candidates: Floats, rows: Ints, *, floor: float = FLOOR) -> Floats:
    """Return mean KL(p_f ‖ p_g) over some rows of teacher (N, K) and candidates (M, N, K)."""
    q_teacher = np.maximum(np.asarray(teacher[rows], dtype=np.float64), floor)
    q_candidates = np.maximum(np.asarray(candidates[:, rows], dtype=np.float64), floor)
    return np.asarray(np.sum(q_teacher * (np.log(q_teacher) - np.log(q_candidates)), axis=(1, 2)) / len(rows))


def rescale(scores: Floats, reference: Floats) -> Floats:
    """Map scores linearly onto the range of a reference, so that one coefficient grid serves both."""
    spread = scores.max() - scores.min()
    if spread == 0:
        return np.full_like(reference, reference.min())
    return np.asarray(
        reference.min() + (scores - scores.min()) / spread * (reference.max() - reference.min())
    )
