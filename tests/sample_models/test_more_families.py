"""Families to judge rules on: what they are made of. Training is left to the command."""

import numpy as np
import pytest

from sample_models.digits import render_glyphs
from sample_models.more_families import CORRUPTIONS, IMBALANCE, SETTINGS, Digits, imbalanced, targets_of


@pytest.mark.parametrize("kind", sorted(CORRUPTIONS))
def test_corruptions_change_pixels_and_nothing_else(kind: str) -> None:
    images = render_glyphs("AB", 6, 1).images
    before = images.copy()
    first, again = (CORRUPTIONS[kind](images, np.random.default_rng(0)) for _ in range(2))
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(first, again)
    assert first.shape == images.shape
    assert first.dtype == np.uint8
    assert (first != images).any(axis=(1, 2)).all()


def test_imbalance_is_ten_to_one_without_repeats() -> None:
    labels = np.repeat(np.arange(10), 200)
    rows = imbalanced(labels, np.random.default_rng(0))
    counts = np.bincount(labels[rows], minlength=10)
    assert len(np.unique(rows)) == len(rows)
    assert counts.max() / counts.min() == pytest.approx(IMBALANCE, rel=0.05)


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_has_its_targets(name: str) -> None:
    setting = SETTINGS[name]
    characters = setting.characters or "0123456789"
    labels = np.tile(np.arange(len(characters)), 30)
    unseen = Digits(np.random.default_rng(0).integers(0, 256, (len(labels), 32, 32), dtype=np.uint8), labels)
    targets = targets_of(setting, unseen)
    assert set(setting.corrupted) < set(targets)
    assert any(kind.startswith("imbalanced") for kind in targets)
    assert ("handwritten" in targets) == (setting.characters == "0123456789")
    for target in targets.values():
        assert len(target.images) == len(target.labels)
