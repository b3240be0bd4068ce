"""The sample's target images have a name of their own on the command line, so that its certificates can be
followed by anybody.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.commands.sample_images import images_at
from engine.exports.recreate import needs_images
from engine.samples import SAMPLE_IMAGES, sample_target
from engine.types import UserError
from pages.ui.workspace.images import image_name


def test_the_name_opens_the_images_that_were_judged(tmp_path: Path) -> None:
    wanted = sample_target().pool_images
    for _ in range(2):  # written, and found again
        images = images_at(SAMPLE_IMAGES, tmp_path)
        assert len(images) == len(wanted)
        assert np.array_equal(images.read(7)[..., 0], wanted[7])
    with pytest.raises(UserError, match="nothing at"):
        images_at("sample:digit", tmp_path)


def test_a_certificate_of_the_sample_names_them_and_asks_for_no_file() -> None:
    assert image_name("sample") == SAMPLE_IMAGES
    assert not needs_images(f"export --teacher sample:digits-vit --images {image_name('sample')} --out DIR")
    assert needs_images("export --teacher net.onnx --images pool.zip --out DIR")
