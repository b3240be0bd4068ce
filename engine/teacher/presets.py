"""The preprocessings people use, by name: a wrong one is the most common reason for a teacher that sees
nothing.

Knows numbers only. Size, layout and channels stay those of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from engine.types import NOT_STATED, Preprocessing

_IMAGENET = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # torchvision's and timm's, RGB, pixels 0..1
_CAFFE = (103.939, 116.779, 123.68)  # Keras' "caffe" mode, BGR, pixels 0..255


@dataclass(frozen=True)
class Preset:
    """Pixel 0..255 times scale, minus mean, over std, in a channel order."""

    title: str
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    order: Literal["RGB", "BGR"] = "RGB"


PRESETS: dict[str, Preset] = {
    "imagenet": Preset("ImageNet (torchvision, timm)", 1 / 255, *_IMAGENET),
    "unit": Preset(title="0 to 1", scale=1 / 255, mean=(0.0,), std=(1.0,)),
    "symmetric": Preset(title="-1 to 1 (TensorFlow)", scale=1 / 127.5, mean=(1.0,), std=(1.0,)),
    "raw": Preset(title="0 to 255, as they are", scale=1.0, mean=(0.0,), std=(1.0,)),
    "caffe": Preset(title="Caffe, BGR, means taken off", scale=1.0, mean=_CAFFE, std=(1.0,), order="BGR"),
}


def apply_preset(preprocessing: Preprocessing, name: str) -> Preprocessing:
    """Return the preprocessing with a preset's numbers; a grey model takes the mean over the channels.

    >>> apply_preset(Preprocessing(32, 32), "symmetric").mean
    (1.0, 1.0, 1.0)
    """
    preset, n = PRESETS[name], preprocessing.channels
    return replace(
        preprocessing,
        scale=preset.scale,
        mean=_per_channel(preset.mean, n),
        std=_per_channel(preset.std, n),
        order=preset.order if n == 3 else "RGB",
    )


def _per_channel(values: tuple[float, ...], n: int) -> tuple[float, ...]:
    if len(values) == n:
        return values
    return values * n if len(values) == 1 else (sum(values) / len(values),) * n


# What importers say of the preprocessing they found or assumed: no longer true once a person sets another.
SAID_BY_IMPORTERS = (
    NOT_STATED,
    "preprocess_input is used",
    "it is given pixels from 0 to 255",
    "The preprocessing is the one timm states",
    "Mean and std are those of the file's metadata",
)


def is_about_preprocessing(note: str) -> bool:
    """Whether a note of a teacher says how its images are prepared.

    >>> is_about_preprocessing(f"No preprocessing was stated: {NOT_STATED}.")
    True
    """
    return any(words in note for words in SAID_BY_IMPORTERS)
