"""Many families: parallel, resumable, atomic, grouped, and forgiving of files that cannot take part."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from engine.predictions.file import save_predictions
from engine.study.protocol import family_task
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.groups import read_groups
from engine.study.protocol.result import load_study
from engine.study.protocol.run import run_study
from engine.types import UserError
from tests.study.families import make_family

CONFIG = StudyConfig(
    budgets=(5, 10), rates=(0.0, 0.2), rules=("val-ce", "ce-combo", "distortion"), repetitions=3
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("families")
    for seed in range(3):
        save_predictions(make_family(seed, n_pool=30), folder / f"toy{seed}.npz")
    return sorted(folder.glob("*.npz"))


def written(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_any_number_of_workers_writes_the_same_bytes(files: list[Path], tmp_path: Path) -> None:
    run_study(files, tmp_path / "one", CONFIG, workers=1)
    run_study(files, tmp_path / "two", CONFIG, workers=2)
    one = written(tmp_path / "one")
    assert one == written(tmp_path / "two")
    assert not [name for name in one if name.endswith(".tmp")]


def test_a_study_reads_back_as_it_was(files: list[Path], tmp_path: Path) -> None:
    result = run_study(files, tmp_path, CONFIG, workers=1)
    again = load_study(tmp_path)
    for name in ("results", "candidates", "attenuation", "groups"):
        pd.testing.assert_frame_equal(getattr(result, name), getattr(again, name), check_exact=True)
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["config"]["budgets"] == [5, 10]
    assert len(metadata["files"]["toy0"]["sha256"]) == 64
    assert result.families == ("toy0", "toy1", "toy2")


def test_a_killed_study_resumes(files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_study(files, tmp_path / "whole", CONFIG, workers=1)
    real, calls = family_task.run_family, []

    def dies_on_the_second(*args, **kwargs):
        calls.append(kwargs["name"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(family_task, "run_family", dies_on_the_second)
    with pytest.raises(KeyboardInterrupt):
        run_study(files, tmp_path / "killed", CONFIG, workers=1)
    assert not (tmp_path / "killed" / "results.csv").exists()
    progress: list[tuple[int, int]] = []
    resumed = run_study(
        files,
        tmp_path / "killed",
        CONFIG,
        workers=1,
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert calls == ["toy0", "toy1", "toy1", "toy2"]
    assert progress == [(1, 3), (2, 3), (3, 3)]
    pd.testing.assert_frame_equal(whole.results, resumed.results, check_exact=True)


def test_another_config_or_file_is_not_taken_for_the_finished_one(files: list[Path], tmp_path: Path) -> None:
    run_study(files[:1], tmp_path, CONFIG, workers=1)
    other = run_study(files[:1], tmp_path, replace(CONFIG, repetitions=1), workers=1)
    assert other.results["repetition"].max() == 0


def test_cancel_keeps_what_is_finished(files: list[Path], tmp_path: Path) -> None:
    done: list[int] = []
    result = run_study(
        files,
        tmp_path,
        CONFIG,
        workers=1,
        on_progress=lambda n, _: done.append(n),
        cancel=lambda: max(done) >= 1,
    )
    assert result.cancelled
    assert result.families == ("toy0",)
    assert not (tmp_path / "results.csv").exists()
    assert not run_study(files, tmp_path, CONFIG, workers=1).cancelled


def test_cancel_stops_workers_too(files: list[Path], tmp_path: Path) -> None:
    assert run_study(files, tmp_path, CONFIG, workers=2, cancel=lambda: True).cancelled


def test_families_that_cannot_take_part_are_skipped_by_name(files: list[Path], tmp_path: Path) -> None:
    save_predictions(
        replace(make_family(5), labels_test=None, teacher_test=None, candidates_test=None),
        tmp_path / "no-test.npz",
    )
    (tmp_path / "broken.npz").write_bytes(b"not an archive")
    given = [files[0], tmp_path / "no-test.npz", tmp_path / "broken.npz", tmp_path / "absent.npz", files[0]]
    result = run_study(given, tmp_path / "out", CONFIG, workers=1)
    assert result.families == ("toy0",)
    reasons = {entry.family: entry.reason for entry in result.skipped}
    assert "no test part" in reasons["no-test"]
    assert "not a readable .npz" in reasons["broken"]
    assert "not a file" in reasons["absent"]
    assert "given twice" in reasons["toy0"]


def test_a_copy_counts_once(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "copy.npz").write_bytes(files[0].read_bytes())
    result = run_study([files[0], tmp_path / "copy.npz"], tmp_path / "out", CONFIG, workers=1)
    assert result.families == ("toy0",)
    assert "same bytes as toy0" in result.skipped[0].reason


def test_files_of_one_name_keep_apart(tmp_path: Path) -> None:
    paths = [tmp_path / "a" / "x" / "f.npz", tmp_path / "b" / "x" / "f.npz", tmp_path / "c" / "f.npz"]
    for seed, path in enumerate(paths):
        save_predictions(make_family(seed, n_pool=30), path)
    assert run_study(paths, tmp_path / "out", CONFIG, workers=1).families == ("x-f", "x-f-2", "c-f")


def test_nothing_left_is_the_users_fault(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no family could be studied"):
        run_study([tmp_path / "absent.npz"], tmp_path / "out", CONFIG)
    with pytest.raises(UserError, match="at least one predictions file"):
        run_study([], tmp_path / "out", CONFIG)
    with pytest.raises(UserError, match="holds no finished study"):
        load_study(tmp_path)


def test_groups_compare_like_with_like(files: list[Path], tmp_path: Path) -> None:
    save_predictions(make_family(9, n_pool=30, n_classes=4), tmp_path / "four.npz")
    groups = tmp_path / "groups.csv"
    groups.write_text("family,setting,shift\ntoy0,A,s1\ntoy1,A,s2\nfour,A,s1\n")
    result = run_study([*files, tmp_path / "four.npz"], tmp_path / "out", CONFIG, groups=groups, workers=1)
    assert result.families == ("toy0", "toy1")
    reasons = {entry.family: entry.reason for entry in result.skipped}
    assert "no line for it" in reasons["toy2"]
    assert "4 classes" in reasons["four"]
    assert set(result.results["family"]) == {"toy0", "toy1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("family\na\n", "no column 'setting'"),
        ("family,setting\na,A\na,B\n", "twice"),
        ("family,setting\na,\n", "no setting for 'a'"),
        ("", "readable CSV"),
    ],
)
def test_a_wrong_groups_file_is_explained(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "groups.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_groups(path)
