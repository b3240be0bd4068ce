"""The teacher's preprocessing, fitted to what a file takes: its own size, layout and channels, and what its
owner states.

Knows preprocessing and sidecars. Opens no model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.family.model_file import InputForm
from engine.teacher.graph import plain_preprocessing
from engine.types import Preprocessing, UserError

_MAX_SIDECAR = 64 * 1024
_PREPROCESSING = tuple(field.name for field in fields(Preprocessing))
_OUTPUT = ("output", "output_name")
_CHOICES = {"interpolation": ("nearest", "bilinear", "bicubic", "lanczos"), "order": ("RGB", "BGR")}
KINDS = ("logits", "probabilities")


@dataclass(frozen=True)
class Taken:
    """What a file itself says about its input; None where it leaves a size open."""

    height: int | None
    width: int | None
    channels: int
    layout: str


def taken_by(shape: tuple[int | None, ...]) -> Taken:
    """Read an input shape (batch, ...) as images; raise UserError if it is none."""
    if len(shape) != 4:
        raise UserError(f"its input has {len(shape)} axes; a batch of images has 4.")
    last, first = shape[3] in (1, 3), shape[1] in (1, 3)
    layout = "NHWC" if last and not first else "NCHW"
    channels, height, width = shape[1:] if layout == "NCHW" else (shape[3], shape[1], shape[2])
    if channels not in (1, 3):
        raise UserError(
            f"it takes {'any number of' if channels is None else channels} channels; images have 1 (grey) or"
            " 3 (colour)."
        )
    return Taken(height=height, width=width, channels=channels, layout=layout)


def fit(
    base: Preprocessing | None, taken: Taken, stated: Mapping[str, Any]
) -> tuple[Preprocessing, tuple[str, ...]]:
    """Return how images are prepared for a file, and sentences on what was assumed.

    `base` is the teacher's preprocessing, None if nothing is known; `stated` are fields the file's owner
    states, which win. Raises UserError if a size stays open or the statement is wrong.
    """
    size = _size(base, taken, stated)
    if base is None:
        fitted = plain_preprocessing(taken.channels, *size)
        notes = ["Pixels are scaled to 0..1 and not normalised: nothing states the preprocessing."]
    else:
        fitted = _resized(base, size)
        notes = [] if size == (base.height, base.width) else [_size_note(size)]
    if taken.height is None or taken.width is None:
        notes.append(f"It leaves the image size open: {size[0]} x {size[1]} is used.")
    if fitted.channels != taken.channels:
        fitted = _with_channels(fitted, taken.channels)
        notes.append(f"It takes {'grey' if taken.channels == 1 else 'colour'} images: they are made so.")
    fitted = replace(fitted, layout="NHWC" if taken.layout == "NHWC" else "NCHW")
    own = {key: value for key, value in stated.items() if key in _PREPROCESSING}
    if own:
        fitted = _stated(fitted, own)
        said = "its own preprocessing" if len(own) > 4 else ", ".join(sorted(own))
        notes = [f"It states {said}."]
    return fitted, tuple(notes)


def _size(base: Preprocessing | None, taken: Taken, stated: Mapping[str, Any]) -> tuple[int, int]:
    height = taken.height or stated.get("height") or (base.height if base else None)
    width = taken.width or stated.get("width") or (base.width if base else None)
    if not (isinstance(height, int) and isinstance(width, int)):
        raise UserError("it leaves the image size open. State it.", option="size")
    return height, width


def _resized(base: Preprocessing, size: tuple[int, int]) -> Preprocessing:
    """Return the same cut of the picture at another size."""
    if base.resize is None or size == (base.height, base.width):
        return replace(base, height=size[0], width=size[1])
    grown = round(base.resize * max(size) / max(base.height, base.width))
    return replace(base, height=size[0], width=size[1], resize=max(grown, *size))


def _size_note(size: tuple[int, int]) -> str:
    return f"It takes {size[0]} x {size[1]} pixels: images are prepared at its own size."


def _with_channels(base: Preprocessing, channels: int) -> Preprocessing:
    if channels == 3:
        return replace(base, channels=3, mean=base.mean * 3, std=base.std * 3)
    mean, std = (float(np.mean(values)) for values in (base.mean, base.std))
    return replace(base, channels=1, order="RGB", mean=(mean,), std=(std,))


def _stated(base: Preprocessing, own: Mapping[str, Any]) -> Preprocessing:
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in own.items()
    }
    if wrong := next((key for key, value in values.items() if isinstance(value, bool)), None):
        raise UserError(f"its description states {wrong} {values[wrong]!r}. Give what {wrong} is.")
    for key in ("mean", "std"):
        if isinstance(values.get(key), int | float):
            values[key] = (float(values[key]),) * base.channels
    fixed = ("height", "width", "channels", "layout")
    wrong = next((key for key in fixed if key in values and values[key] != getattr(base, key)), None)
    if wrong:
        raise UserError(
            f"its description states {wrong} {values[wrong]!r}, and the file takes {getattr(base, wrong)!r}."
            " Correct the description."
        )
    for key, allowed in _CHOICES.items():
        if values.get(key, allowed[0]) not in allowed:
            raise UserError(f"its description states {key} {values[key]!r}; it is {' or '.join(allowed)}.")
    try:
        return replace(base, **values)
    except (TypeError, ValueError) as error:
        raise UserError(f"its description cannot be used: {error}. Correct it.") from None


def range_note(form: InputForm) -> str | None:
    """Return a warning if the integers a file takes cover quite another range than its images will have."""
    dtype, p = np.dtype(form.dtype), form.preprocessing
    if dtype.kind == "f":
        return None
    info = np.iinfo(dtype)
    low, high = ((limit - form.zero_point) * form.scale for limit in (info.min, info.max))
    ends = [(pixel * p.scale - np.array(p.mean)) / np.array(p.std) for pixel in (0, 255)]
    lowest, highest = float(ends[0].min()), float(ends[1].max())
    span, covered = highest - lowest, min(high, highest) - max(low, lowest)
    if covered > 0.5 * span and span > 0.2 * (high - low):
        return None
    return (
        f"Its integers stand for {low:.3g} to {high:.3g}, and prepared images run from {lowest:.3g} to"
        f" {highest:.3g}: it was most likely made for another scaling of pixels. State scale, mean and std."
    )


def read_sidecar(path: Path) -> dict[str, Any]:
    """Return what a NAME.json states about the model beside it; raise UserError if it is not understood."""
    try:
        if not path.is_file():  # a pipe would keep us waiting
            raise OSError
        with path.open("rb") as file:
            content = file.read(_MAX_SIDECAR + 1)
        stated = json.loads(content) if len(content) <= _MAX_SIDECAR else None
    except (OSError, ValueError, RecursionError):
        stated = None
    if not isinstance(stated, dict):
        raise UserError(f"{path.name} is no JSON object of at most 64 kB. Correct or remove it.")
    strange = next((key for key in stated if key not in (*_PREPROCESSING, *_OUTPUT)), None)
    if strange is not None:
        known = ", ".join((*_PREPROCESSING, *_OUTPUT))
        raise UserError(f"{path.name} states {strange!r}; known are {known}. Correct or remove it.")
    if stated.get("output", KINDS[0]) not in KINDS:
        raise UserError(f"{path.name} states output {stated['output']!r}; it is logits or probabilities.")
    return stated
