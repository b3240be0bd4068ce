"""A teacher on a few target images, before anything long is run: what it sees, and what it answers.

A wrong normalisation shows here in a minute. Stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.predictions.job import without_kernels
from engine.predictions.model import Session, probabilities
from engine.target import ImageSet, normalise
from engine.types import Floats, Ints, Teacher

TOP = 3


@dataclass(frozen=True, eq=False)
class Preview:
    """seen (n, height, width, 3) uint8: the images as cropped and resized; classes, probs (n, 3): the top
    answers; low, high: the range of the numbers the model really got.
    """

    seen: NDArray[np.uint8]
    classes: Ints
    probs: Floats
    low: float
    high: float


def preview(teacher: Teacher, images: ImageSet, rows: Sequence[int]) -> Preview:
    """Run the teacher on the images of these indices, and keep what it saw beside what it says."""
    p = teacher.preprocessing
    pixels = images.stacked(rows, p)
    inputs = normalise(pixels, p)
    kernels = {name: np.asarray(array, np.float32) for name, array in teacher.weights.items()}
    session = Session(without_kernels(teacher.graph, teacher.kernels), kernels)
    probs = np.concatenate([probabilities(session.outputs(one[None]), teacher.output) for one in inputs])
    order = np.argsort(-probs, axis=1, kind="stable")[:, :TOP]
    return Preview(
        seen=_as_pictures(pixels, p.layout, p.order),
        classes=order,
        probs=np.take_along_axis(probs, order, axis=1),
        low=float(inputs.min()),
        high=float(inputs.max()),
    )


def _as_pictures(pixels: NDArray[Any], layout: str, order: str) -> NDArray[np.uint8]:
    """Prepared pixels back as RGB pictures for people."""
    shown = np.moveaxis(pixels, 1, -1) if layout == "NCHW" else pixels
    if shown.shape[-1] == 1:
        shown = np.repeat(shown, 3, axis=-1)
    elif order == "BGR":
        shown = shown[..., ::-1]
    pictures: NDArray[np.uint8] = np.clip(np.rint(shown), 0, 255).astype(np.uint8)
    return pictures
