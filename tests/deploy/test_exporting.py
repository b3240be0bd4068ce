"""The judged bytes come back from the store, or from the same images; without either, a sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.deploy import exporting
from engine.deploy.exporting import ready_file
from engine.deploy.running import predict_family
from engine.family.kinds import StaticRecipe
from engine.target import open_images
from engine.types import UserError
from tests.tiny_teacher import tiny_teacher

RECIPE = StaticRecipe("channel", "p99.9", False)


def test_the_judged_bytes_are_found_or_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    images, teacher = open_images(tmp_path / "x.npy"), tiny_teacher()
    predictions = predict_family(teacher, [RECIPE], images, store=tmp_path / "s")
    made = ready_file(teacher, RECIPE, store=tmp_path / "other", predictions=predictions, images=images)
    assert len(made.facts["calibration_images"]) == 20
    monkeypatch.setattr(exporting, "Workshop", None)  # what is stored is not built again
    found = ready_file(teacher, RECIPE, store=tmp_path / "s", predictions=predictions)
    assert found.content == made.content
    assert found.judged_sha256 == predictions.file_sha256[0]  # type: ignore[index]
    with pytest.raises(UserError, match="its file is not in the store"):
        ready_file(teacher, RECIPE, store=tmp_path / "nothing", predictions=predictions)
