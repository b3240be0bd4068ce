"""Giving up on hopeless candidates early, with a bound on the risk of being wrong. Knows probabilities on
unlabeled images, nothing else.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engine.types import FLOOR, Floats

ERROR = 1e-3  # chance that any candidate of the family is given up wrongly
# nats counted per image at most: a lower bound of the mean stays one, and single images cannot decide
_CEILING = 2.0
_STAKES = np.array([0.1, 0.25, 0.5, 0.75, 0.9])  # shares of the largest bet; averaging them needs no tuning


class HopelessTest:
    """Is a candidate, on average over the target, farther from the teacher than a uniform guess is?

    Per image x = min(KL(p_f, p_g) - KL(p_f, uniform), ceiling), at least -log K. If E[x] <= 0, every bet's
    capital prod(1 + stake x / log K) is a nonnegative supermartingale, so by Ville's inequality it reaches
    n_candidates / ERROR at any time with probability at most ERROR / n_candidates. Assumes that images are
    drawn at random, one by one.
    """

    def __init__(self, n_candidates: int, n_classes: int) -> None:
        self._log_k = math.log(n_classes)
        self._wanted = math.log(n_candidates / ERROR)
        self._capital: NDArray[np.float64] = np.zeros(len(_STAKES))
        self.n_images = 0

    def is_hopeless(self, teacher: Floats, candidate: Floats) -> bool:
        """Take in the probabilities (batch, K) of the next images and say whether the candidate can be given
        up by now.
        """
        p, q = (np.maximum(np.asarray(probs, np.float64), FLOOR) for probs in (teacher, candidate))
        # KL(p, q) - KL(p, uniform): the entropy of p cancels
        x = np.minimum(-(p * np.log(q)).sum(axis=1) - self._log_k * p.sum(axis=1), _CEILING)
        self._capital += np.log1p(np.outer(x, _STAKES / self._log_k)).sum(axis=0)
        self.n_images += len(x)
        average = float(np.logaddexp.reduce(self._capital)) - math.log(len(_STAKES))
        return average >= self._wanted
