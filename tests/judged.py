"""What a candidate is judged by: the float graph with dequantized kernels, run on prepared images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.exports.parity import float_candidate, run_file
from engine.family.weights import candidate_weights
from engine.types import Floats, Recipe, Teacher


def judged_probabilities(teacher: Teacher, recipe: Recipe, images: NDArray[np.float32]) -> Floats:
    """The candidate's probabilities (n, K) on images (n, ...)."""
    candidate = float_candidate(teacher, candidate_weights(teacher, recipe))
    return run_file(candidate, images, teacher.output)
