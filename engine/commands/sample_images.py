"""`--images sample:digits`: the target images that come with the digit samples, so that a printed command can
name them as it names a sample's teacher. Knows where they are kept as a file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.files.whole_file import whole_file
from engine.samples import SAMPLE_IMAGES, sample_target
from engine.target import ImageSet, open_images


def images_at(place: str, store: Path) -> ImageSet:
    """Open the images at a path, or the sample's own, which are written into the store once."""
    if place != SAMPLE_IMAGES:
        return open_images(place)
    path = store / "samples" / "digits.npy"
    if not path.exists():
        with whole_file(path) as file:
            np.save(file, sample_target().pool_images)
    return open_images(path)
