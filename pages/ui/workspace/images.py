"""The target images of a session: where they come from, in which order they form the pool, and small pictures
of them.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.samples import SAMPLE_IMAGES
from engine.target import ImageSet, Limits, open_images
from engine.types import UserError


def sample_images(folder: Path) -> Path:
    """Write the sample's handwritten digits beside the session as an array file, once, and return its
    path.
    """
    from engine.samples import sample_target

    path = folder / "images" / "digits.npy"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".part.npy")
        np.save(temporary, sample_target().pool_images)
        temporary.replace(path)
    return path


def image_name(target: str) -> str:
    """Return what the target's file or folder is called, for whoever has it too."""
    return SAMPLE_IMAGES if target == "sample" else Path(target).name


def open_target(folder: Path, target: str, limits: Limits) -> ImageSet:
    """Open what the record calls the target: "sample", or the path of a folder, zip or array."""
    if not target:
        raise UserError("there are no target images yet. Choose some on the Target data page.")
    return open_images(sample_images(folder) if target == "sample" else Path(target), limits=limits)


def thumbnail(images: ImageSet, index: int, side: int = 96) -> NDArray[np.uint8]:
    """Return image `index` as uint8 RGB with its shorter side at least `side`: photographs shrink, tiny
    digits grow.
    """
    from PIL import Image

    pixels = np.clip(images.read(index), 0, 255).astype(np.uint8)
    picture = Image.fromarray(pixels)
    factor = side / min(picture.size)
    size = (max(1, round(picture.width * factor)), max(1, round(picture.height * factor)))
    return np.asarray(picture.resize(size, Image.Resampling.BICUBIC))
