"""Encoded images become pixels in guarded children that stay: a bomb or a crash costs the image, not the run.

Knows what travels to a decoder and back. Decoding itself is `decode`, resizing is `prepare`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.guard import Answer, Fallen, Part, Pool, limits_for
from engine.target.decode import UnreadableImageError, decode
from engine.target.prepare import prepare
from engine.types import Preprocessing, UserError

_BATCH_BYTES = 8 << 20  # of encoded images sent at once
BATCH = 16  # images


@dataclass(frozen=True)
class Encoded:
    """One image as it was stored."""

    name: str
    content: bytes
    max_pixels: int


class DeadlyImageError(UnreadableImageError):
    """An image that its decoder did not survive."""


@cache
def _pool() -> Pool:
    return Pool("engine.target.decoders:decode_in_child", limits_for("images"), "decoding it")


def decoded(
    images: Iterable[Encoded | UnreadableImageError], preprocessing: Preprocessing | None = None
) -> Iterator[NDArray[Any] | UnreadableImageError]:
    """Yield each image's pixels (height, width, 3) uint8, or as the teacher takes them (`prepare`), or what
    is wrong with it; decoded in children, a few megabytes at a time.
    """
    wanted = {"preprocessing": None if preprocessing is None else preprocessing.to_json()}
    for answer in _answers(images, {**wanted, "shape_only": False}):
        if isinstance(answer, Answer):
            yield np.frombuffer(answer.content, np.uint8).reshape(answer.facts["shape"])
        else:
            yield answer


def shapes(
    images: Iterable[Encoded | UnreadableImageError],
) -> Iterator[tuple[int, ...] | UnreadableImageError]:
    """Yield each image's shape once it has been decoded, or what is wrong with it."""
    for answer in _answers(images, {"preprocessing": None, "shape_only": True}):
        yield tuple(answer.facts["shape"]) if isinstance(answer, Answer) else answer


def _answers(
    images: Iterable[Encoded | UnreadableImageError], wanted: Mapping[str, Any]
) -> Iterator[Answer | UnreadableImageError]:
    for some in _batches(images):
        parts = [
            Part({"name": image.name, "max_pixels": image.max_pixels, **wanted}, image.content)
            for image in some
            if isinstance(image, Encoded)
        ]
        answers = iter(_pool().ask(parts))
        for image in some:
            yield _checked(image.name, next(answers)) if isinstance(image, Encoded) else image


def _batches(
    images: Iterable[Encoded | UnreadableImageError],
) -> Iterator[list[Encoded | UnreadableImageError]]:
    some: list[Encoded | UnreadableImageError] = []
    n_bytes = 0
    for image in images:
        some.append(image)
        n_bytes += len(image.content) if isinstance(image, Encoded) else 0
        if len(some) == BATCH or n_bytes >= _BATCH_BYTES:
            yield some
            some, n_bytes = [], 0
    if some:
        yield some


def _checked(name: str, answer: Answer | UserError | Fallen) -> Answer | UnreadableImageError:
    if isinstance(answer, Fallen):
        return DeadlyImageError(name, answer.reason)
    return UnreadableImageError(name, answer.remedy) if isinstance(answer, UserError) else answer


def decode_in_child(
    content: bytes, name: str, max_pixels: int, preprocessing: str | None, shape_only: bool
) -> tuple[dict[str, Any], bytes]:
    """The child's part: decode, prepare if asked to, and hand the pixels back with their shape."""
    try:
        pixels: NDArray[Any] = decode(content, name, max_pixels)
    except UnreadableImageError as error:
        raise UserError(name, error.reason) from None
    if preprocessing is not None:
        pixels = prepare(pixels, Preprocessing.from_json(preprocessing))
    return {"shape": pixels.shape}, b"" if shape_only else pixels.tobytes()
