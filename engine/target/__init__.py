"""Images in, safely: open a stranger's folder, zip or array, list what is wrong with it, and prepare pixels
for a teacher.
"""

from engine.target.decode import UnreadableImageError
from engine.target.image_set import (
    BadImage,
    ImageSet,
    duplicates,
    in_batches,
    labels_from_folders,
    open_images,
    pool_order,
    scan,
)
from engine.target.prepare import input_shape, normalise, prepare
from engine.target.sources import Limits

__all__ = [
    "BadImage",
    "ImageSet",
    "Limits",
    "UnreadableImageError",
    "duplicates",
    "in_batches",
    "input_shape",
    "labels_from_folders",
    "normalise",
    "open_images",
    "pool_order",
    "prepare",
    "scan",
]
