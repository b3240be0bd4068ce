"""The plan of a study: names of families, what is left out and why, and fingerprints that see every
change.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from engine.study.protocol import plan as planning
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.plan import plan

CONFIG = StudyConfig()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "family.npz").write_bytes(folder.encode())
    return [tmp_path / "one" / "family.npz", tmp_path / "two" / "family.npz"]


def reasons(files: list[Path], grouping: pd.DataFrame | None = None) -> dict[str, str]:
    return {entry.family: entry.reason for entry in plan(files, Path("out"), CONFIG, grouping)[1]}


def test_families_of_one_name_are_told_apart_by_their_folders(files: list[Path]) -> None:
    tasks, skipped = plan(files, Path("out"), CONFIG, None)
    assert [task.family for task in tasks] == ["one-family", "two-family"]
    assert not skipped
    assert tasks[0].rows.parent == Path("out") / "families"
    assert tasks[0].part("candidates").name.endswith(".candidates.csv")
    assert [task.family for task in plan(files[:1], Path("out"), CONFIG, None)[0]] == ["family"]


def test_what_cannot_be_taken_is_said(files: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy.npz"
    copy.write_bytes(files[0].read_bytes())
    left_out = reasons([files[0], files[0], copy, tmp_path / "missing.npz"])
    assert "given twice" in left_out["family"]
    assert "same bytes as family" in left_out["copy"]
    assert "is not a file" in left_out["missing"]
    grouping = pd.DataFrame({"family": ["one-family"]})
    assert "no line for it" in reasons(files, grouping)["two-family"]


def test_rows_are_found_again_only_for_the_same_bytes_config_and_code(
    files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(config: StudyConfig = CONFIG) -> str:
        return plan(files[:1], Path("out"), config, None)[0][0].rows.name

    first = rows()
    assert rows() == first
    assert rows(StudyConfig(budgets=(10,))) != first
    files[0].write_bytes(b"other")
    changed = rows()
    assert changed != first
    monkeypatch.setattr(planning, "_code_hash", lambda: "another engine")
    assert rows() not in (first, changed)


def test_the_fingerprint_of_the_code_sees_folders_within_rooms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rules" / "deep").mkdir(parents=True)
    monkeypatch.setattr("engine.__file__", str(tmp_path / "__init__.py"))
    empty = planning._code_hash()
    (tmp_path / "rules" / "deep" / "rule.py").write_text("x = 1")
    one = planning._code_hash()
    (tmp_path / "rules" / "deep" / "rule.py").write_text("x = 2")
    assert len({empty, one, planning._code_hash()}) == 3
