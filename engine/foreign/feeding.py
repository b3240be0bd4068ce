"""Prepared pixels as the numbers a model takes: reals, or a file's own integers.

Knows pixels and what a file says about its input. Runs nothing, and keeps its memory from batch to batch:
fresh memory for every batch costs more than the arithmetic.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.family.model_file import InputForm
from engine.target.prepare import input_shape, normalise


class Feed:
    """Turns batches of at most `n_images` prepared images into a model's input, which holds until the next
    batch is asked for.
    """

    def __init__(self, form: InputForm, n_images: int) -> None:
        self._form, self._shift, self.n_images = form, shift_of(form), n_images
        shape = (n_images, *input_shape(form.preprocessing))
        self._reals, self._codes = np.empty(shape, np.float32), np.empty(shape, np.uint8)

    def __call__(self, pixels: NDArray[Any]) -> NDArray[Any]:
        """Return a batch (n, *input_shape) of pixels as the model takes it: `encode` of `normalise`, to the
        byte.
        """
        if self._shift is None or pixels.dtype != np.uint8:
            reals = normalise(pixels, self._form.preprocessing, self._reals)
            return encode(reals, self._form, overwrite=True)
        codes: NDArray[np.uint8] = np.add(pixels, self._shift, out=self._codes[: len(pixels)])
        return codes.view(self._form.dtype)


def shift_of(form: InputForm) -> np.uint8 | None:
    """Return the number that makes every pixel its code when added in 8 bits, in all channels; None if there
    is none.

    A converter that saw the darkest and the brightest pixel gives each pixel a code of its own, so that
    nothing has to be computed in reals.
    """
    if np.dtype(form.dtype) not in (np.uint8, np.int8):
        return None
    p = replace(form.preprocessing, height=1, width=256, resize=None)
    line = np.arange(256, dtype=np.uint8)
    pixels = np.broadcast_to(line if p.layout == "NCHW" else line[:, None], input_shape(p))
    shifts = encode(normalise(pixels[None], p), form).view(np.uint8) - pixels
    first: np.uint8 = shifts.flat[0]
    return first if (shifts == first).all() else None


def encode(images: NDArray[np.float32], form: InputForm, *, overwrite: bool = False) -> NDArray[Any]:
    """Return real inputs as the file's own numbers; integers are rounded half to even and clipped. The images
    may be lost where they can be overwritten.
    """
    dtype = np.dtype(form.dtype)
    if dtype.kind == "f":
        return images.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    codes = np.divide(images, np.float32(form.scale), out=images if overwrite else None)
    np.rint(codes, out=codes)
    codes += form.zero_point
    np.clip(codes, limits.min, limits.max, out=codes)
    return codes.astype(dtype)
