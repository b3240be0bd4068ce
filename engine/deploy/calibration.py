"""The calibration images: the pool's leading rows, prepared as the teacher takes them, never their labels.

Knows rows and hashes. Knows nothing of what is read off them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.predictions.job import batch_size
from engine.target import normalise
from engine.types import Teacher, UserError

MOST = 256  # images; ranges hardly move beyond
FEWEST = 8


@dataclass(frozen=True, eq=False)
class Calibration:
    """A teacher and the images its candidates are fitted on: `images` (n, ...) float32, `digests` their
    hashes as prepared.
    """

    teacher: Teacher
    images: NDArray[np.float32]
    digests: tuple[str, ...]

    @property
    def batch(self) -> int:
        """How many images run at once."""
        return batch_size(self.teacher.preprocessing)


def read_calibration(teacher: Teacher, pixels: Path, n_calibration: int) -> Calibration:
    """Take the leading rows of a prepared pool, at most `MOST` of its calibration split.

    Raises UserError if there are fewer than `FEWEST`.
    """
    n = min(MOST, n_calibration)
    if n < FEWEST:
        raise UserError(
            f"the calibration split has {n} image{'s' if n != 1 else ''}; ranges and sensitivities need at"
            f" least {FEWEST}.",
            f"Give at least {2 * FEWEST} images, or use the paper's family, which needs none.",
            option="family",
        )
    rows: NDArray[Any] = np.load(pixels, mmap_mode="r", allow_pickle=False)[:n]
    return calibrate_on(teacher, normalise(rows, teacher.preprocessing))


def calibrate_on(teacher: Teacher, images: NDArray[np.float32]) -> Calibration:
    """Take prepared images (n, ...) as the teacher takes them."""
    digests = tuple(hashlib.sha256(np.ascontiguousarray(image).tobytes()).hexdigest() for image in images)
    return Calibration(teacher, images, digests)
