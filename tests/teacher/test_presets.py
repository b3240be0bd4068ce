"""Presets: against torchvision's and Keras' own formulas, for colour and grey models."""

from pathlib import Path

import numpy as np
import pytest

from engine.target import normalise
from engine.teacher import presets
from engine.teacher.presets import PRESETS, SAID_BY_IMPORTERS, apply_preset, is_about_preprocessing
from engine.types import Preprocessing

PIXELS = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (2, 3, 4, 4)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("imagenet", lambda x, c: (x / 255 - [0.485, 0.456, 0.406][c]) / [0.229, 0.224, 0.225][c]),
        ("unit", lambda x, c: x / 255),
        ("symmetric", lambda x, c: x / 127.5 - 1),  # keras' "tf" mode
        ("raw", lambda x, c: x),
        (
            "caffe",
            lambda x, c: x - [103.939, 116.779, 123.68][c],
        ),  # keras' "caffe" mode; channels are BGR here
    ],
)
def test_presets_are_the_published_formulas(name, formula):
    out = normalise(PIXELS, apply_preset(Preprocessing(4, 4), name))
    for channel in range(3):
        np.testing.assert_allclose(out[:, channel], formula(PIXELS[:, channel], channel), atol=1e-5)


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("channels", [1, 3])
def test_a_preset_keeps_the_input_and_is_applied_once(name, channels):
    plain = Preprocessing(8, 8, channels=channels, mean=(0.0,) * channels, std=(1.0,) * channels)
    applied = apply_preset(plain, name)
    assert apply_preset(applied, name) == applied
    assert (applied.height, applied.width, applied.channels) == (8, 8, channels)


def test_notes_on_preprocessing_are_known_as_such_wherever_they_are_written() -> None:
    """A note that an importer rewords would outlive the preprocessing it speaks of."""
    folder = Path(presets.__file__).parent / "importers"
    written = " ".join(" ".join(path.read_text().split()) for path in folder.glob("*.py")).replace('" "', "")
    for words in SAID_BY_IMPORTERS[1:]:
        assert words in written, words
        assert is_about_preprocessing(f"So {words}.")
    assert "NOT_STATED" in written
    assert not is_about_preprocessing("The model returns logits; a softmax is applied to them.")
