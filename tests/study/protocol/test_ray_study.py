"""A study on a cluster writes the tables of a local one, whatever order cells come back in."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from engine.predictions.file import load_predictions, save_predictions
from engine.study.protocol import ray_study
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.run import run_study
from engine.types import UserError
from tests.local_ray import LocalRay, joins
from tests.study.families import make_family

CONFIG = StudyConfig(
    budgets=(10, 5),
    rates=(0.0, 0.2),
    rules=("val-ce", "ce-combo", "distortion", "auto", "auto-active"),
    repetitions=2,
    floors=(1e-8, 1e-6),
)
has_ray = importlib.util.find_spec("ray") is not None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("families")
    for seed in range(2):
        save_predictions(make_family(seed, n_pool=30), folder / f"toy{seed}.npz")
    family = make_family(2, n_pool=30)
    save_predictions(family, folder / "toy2")  # a folder of shards
    return sorted(folder.iterdir())


@pytest.fixture(scope="module")
def expected(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("local")
    run_study(files, out, CONFIG, workers=1)
    return written(out)


def written(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_cells_give_the_tables_of_a_local_study(files, expected, tmp_path, monkeypatch):
    ray, seen = LocalRay(), []
    monkeypatch.setattr(ray_study, "joined", joins(ray))
    run_study(files, tmp_path, CONFIG, ray="local", on_progress=lambda *report: seen.append(report))
    assert written(tmp_path) == expected
    assert ray.n_run == 3 * (1 + 2 * 4)  # described once; two floors of: no labels, two budgets, active
    assert seen[-1] == (3, 3)


def test_files_travel_where_nodes_do_not_see_them(files, expected, tmp_path, monkeypatch):
    ray = LocalRay()
    monkeypatch.setattr(ray_study, "joined", joins(ray, is_shared=False))
    run_study(files[:2], tmp_path, CONFIG, ray="local")
    rows = [name for name in expected if name.startswith("families/toy1-")]
    assert rows
    assert all((tmp_path / name).read_bytes() == expected[name] for name in rows)
    with pytest.raises(UserError, match="toy2 is a folder, and not every node"):
        run_study(files[2:], tmp_path, CONFIG, ray="local")


def test_a_family_that_cannot_take_part_is_skipped(files, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_study, "joined", joins(LocalRay()))
    family = load_predictions(files[1])
    save_predictions(family, tmp_path / "same.npz")
    with np.load(tmp_path / "same.npz") as stored:
        arrays = dict(stored)
    arrays["candidates"] = np.repeat(arrays["candidates"][:1], len(arrays["candidates"]), axis=0)
    np.savez(tmp_path / "same.npz", **arrays)
    result = run_study([files[1], tmp_path / "same.npz"], tmp_path / "out", CONFIG, ray="local")
    assert [entry.family for entry in result.skipped] == ["same"]
    assert result.families == ("toy1",)


def test_an_interrupted_study_keeps_finished_families(files, expected, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_study, "joined", joins(LocalRay({20: LocalRay.exceptions.RayError("gone")})))
    with pytest.raises(UserError, match=r"for good .gone.. Finished families are kept"):
        run_study(files, tmp_path, CONFIG, ray="local")
    kept = written(tmp_path)
    assert kept
    assert all(expected[name] == content for name, content in kept.items())
    again = LocalRay()
    monkeypatch.setattr(ray_study, "joined", joins(again))
    run_study(files, tmp_path, CONFIG, ray="local")
    assert written(tmp_path) == expected
    assert again.n_run < 27


def test_a_cancelled_study_says_so(files, tmp_path, monkeypatch):
    ray = LocalRay()
    monkeypatch.setattr(ray_study, "joined", joins(ray))
    result = run_study(files, tmp_path, CONFIG, ray="local", cancel=lambda: ray.n_run > 3)
    assert result.cancelled
    assert ray.cancelled


@pytest.mark.slow
@pytest.mark.skipif(not has_ray, reason="Ray is optional: pip install -r requirements-ray.txt")
def test_a_real_cluster_on_this_machine(files, expected, tmp_path):
    run_study(files, tmp_path, CONFIG, ray="local")
    assert written(tmp_path) == expected
