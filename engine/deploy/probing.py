"""The teacher with some kernels replaced, on a few calibration images: how far its answers move.

Knows weight-swapped sessions and divergences. Knows nothing of bits, memory or the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.deploy.calibration import Calibration
from engine.predictions.job import without_kernels
from engine.predictions.model import Session, probabilities
from engine.types import FLOOR, Floats, Teacher

_STEP = 16  # images after which a comparison may be over

Replaced = dict[str, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Probing:
    """Runs the teacher with some kernels replaced over the same few images."""

    teacher: Teacher
    graph: bytes
    images: NDArray[np.float32]
    batch: int

    @classmethod
    def of(cls, teacher: Teacher, images: NDArray[np.float32], batch: int) -> Probing:
        return cls(teacher, without_kernels(teacher.graph, teacher.kernels), images, min(batch, _STEP))

    def steps(self, replaced: Replaced) -> Iterator[NDArray[np.float64]]:
        """Yield the probabilities (n, K) batch by batch with these kernels in place of the teacher's."""
        own = {name: np.asarray(array, np.float32) for name, array in self.teacher.weights.items()}
        session = Session(self.graph, {**own, **replaced})
        for start in range(0, len(self.images), self.batch):
            outputs = session.outputs(self.images[start : start + self.batch])
            yield probabilities(outputs, self.teacher.output).astype(np.float64)

    def probs(self, replaced: Replaced) -> NDArray[np.float64]:
        """Return the probabilities of all images, (n, K)."""
        return np.concatenate(list(self.steps(replaced)))


@dataclass(frozen=True)
class Distance:
    """A mean KL divergence, or, where it is not `whole`, what it is at least."""

    value: float
    whole: bool = True


@dataclass(frozen=True, eq=False)
class Reference:
    """The teacher's own answers on some images, to compare it with replaced kernels with."""

    probing: Probing
    probs: Floats

    @classmethod
    def of(cls, calibration: Calibration, n_images: int) -> Reference:
        """Take the leading calibration images."""
        probing = Probing.of(calibration.teacher, calibration.images[:n_images], calibration.batch)
        return cls(probing, probing.probs({}))

    def distance(self, replaced: Replaced, limit: float = np.inf) -> Distance:
        """Return how far the teacher is with these kernels in place of its own, measured no further than to
        know that it is above `limit`; one that yields nan is as far as can be.
        """
        n, done, total = len(self.probs), 0, 0.0
        for probs in self.probing.steps(replaced):
            if not np.isfinite(probs).all():
                return Distance(float(-np.log(FLOOR)))
            total += float(divergences(self.probs[done : done + len(probs)], probs).sum())
            done += len(probs)
            if total / n > limit and done < n:  # no image can make it less
                return Distance(total / n, whole=False)
        return Distance(total / n)


def divergences(reference: Floats, probs: Floats) -> NDArray[np.float64]:
    """Return KL(reference, probs) of every image, (n,), with the floor that every rule has."""
    p, q = np.maximum(reference, FLOOR), np.maximum(probs, FLOOR)
    found: NDArray[np.float64] = np.sum(p * (np.log(p) - np.log(q)), axis=1)
    return found
