"""A decoded image to the teacher's input: resize, crop, channel order, layout, then numbers. Knows
Preprocessing and nothing else.

The geometry is done once per image and yields pixels that can be stored; the arithmetic is done per batch,
from the stored pixels.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from engine.types import Preprocessing

_RESAMPLING = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}
_LARGEST = 20_000_000  # pixels of the resized image before its crop; photographs stay far below
_CACHED = 1 << 15  # values normalised at a time: 128 kB
_LUMA = np.array([0.299, 0.587, 0.114], np.float32)  # ITU-R 601, as Pillow's own conversion to gray


def input_shape(preprocessing: Preprocessing) -> tuple[int, int, int]:
    """Return the shape of one prepared image in the teacher's layout."""
    p = preprocessing
    return (p.channels, p.height, p.width) if p.layout == "NCHW" else (p.height, p.width, p.channels)


def prepare(image: NDArray[Any], preprocessing: Preprocessing) -> NDArray[Any]:
    """Return the image resized, cropped and laid out for the teacher, still as pixels 0..255 (`input_shape`,
    dtype kept).

    image is (height, width, 3) uint8 or float32. The shorter side becomes `resize`, then the centre is
    cropped, with the rounding that torchvision uses; without `resize` the image is squashed to the input
    size.
    """
    p = preprocessing
    if image.dtype == np.uint8:
        cropped = _to_size(Image.fromarray(np.ascontiguousarray(image)), p)
        pixels = np.asarray(cropped.convert("L") if p.channels == 1 else cropped)
    else:
        planes = [
            np.asarray(_to_size(Image.fromarray(np.ascontiguousarray(image[..., c])), p)) for c in range(3)
        ]
        pixels = np.stack(planes, axis=-1)
        pixels = pixels @ _LUMA if p.channels == 1 else pixels
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if p.order == "BGR":
        pixels = pixels[..., ::-1]
    return np.ascontiguousarray(pixels.transpose(2, 0, 1) if p.layout == "NCHW" else pixels)


def _to_size(image: Image.Image, p: Preprocessing) -> Image.Image:
    if p.resize is None:
        return (
            image
            if image.size == (p.width, p.height)
            else image.resize((p.width, p.height), _RESAMPLING[p.interpolation])
        )
    width, height = image.size
    short, long = min(width, height), max(width, height)
    grown = int(p.resize * long / short)
    new_width, new_height = (p.resize, grown) if width <= height else (grown, p.resize)
    left, top = round((new_width - p.width) / 2.0), round((new_height - p.height) / 2.0)
    if new_width * new_height <= _LARGEST:
        whole = (
            image
            if (new_width, new_height) == image.size
            else image.resize((new_width, new_height), _RESAMPLING[p.interpolation])
        )
        return whole.crop((left, top, left + p.width, top + p.height))
    # A 1 x 10,000 strip would grow to gigabytes: resample only what survives the crop (equal up to rounding).
    x, y = width / new_width, height / new_height
    box = (left * x, top * y, min((left + p.width) * x, width), min((top + p.height) * y, height))
    return image.resize((p.width, p.height), _RESAMPLING[p.interpolation], box=box)


def normalise(
    pixels: NDArray[Any], preprocessing: Preprocessing, buffer: NDArray[np.float32] | None = None
) -> NDArray[np.float32]:
    """Return a batch of prepared pixels (batch, *input_shape) as the teacher's float32 input; an image's
    bytes do not depend on its batch.

    (pixel * scale - mean) / std is applied as pixel * a + b, a and b rounded from float64: within 1e-6 of the
    exact value. mean and std follow the channels as they stand after `order` is applied. The result is
    written to the head of `buffer` if one is given: fresh memory for every batch costs more than the
    arithmetic.
    """
    p = preprocessing
    a, b, rows = _line(p)
    source = np.asarray(pixels)  # a memory map takes microseconds for every slice of it
    out = np.empty(pixels.shape, np.float32) if buffer is None else buffer[: len(pixels)]
    group = max(1, _CACHED // (p.channels * p.height * p.width))
    for start in range(0, len(out), group):  # three passes that stay in the processor's cache
        part = out[start : start + group]
        flat = part.reshape(len(part), *rows)
        flat[...] = source[start : start + group].reshape(flat.shape)
        flat *= a
        flat += b
    return out


@lru_cache(maxsize=8)  # asked for once a batch, of the few ways that a run has
def _line(p: Preprocessing) -> tuple[NDArray[np.float32], NDArray[np.float32], tuple[int, ...]]:
    """Return a and b of pixel * a + b, and the shape of an image in which they follow its channels."""
    mean, std = np.array(p.mean, np.float64), np.array(p.std, np.float64)
    a, b = (p.scale / std).astype(np.float32), (-mean / std).astype(np.float32)
    if len(set(a)) == len(set(b)) == 1:
        return a[:1], b[:1], (p.channels * p.height * p.width,)
    if p.layout == "NHWC":
        return np.tile(a, p.width), np.tile(b, p.width), (p.height, p.width * p.channels)
    return a[:, None], b[:, None], (p.channels, p.height * p.width)
