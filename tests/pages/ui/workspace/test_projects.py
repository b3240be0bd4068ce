"""Projects: putting away and taking up lose nothing; a stranger's project file cannot reach out of its
folder.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path

import pytest

from engine.types import UserError
from pages.ui.session.record import Record
from pages.ui.workspace.folder import RECORD, new_id, write_bytes, write_json
from pages.ui.workspace.project_file import MARK, pack, unpack
from pages.ui.workspace.projects import (
    KEPT,
    delete,
    duplicate,
    next_to_go,
    projects,
    put_away,
    recover,
    rename,
    take_up,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    home = tmp_path / "sessions" / new_id()
    home.mkdir(parents=True)
    return home


def work(folder: Path, title: str, at: float = 0.0) -> None:
    target = str(folder / "images" / "a.zip")
    write_json(folder / RECORD, {**Record(origin="file", title=title, target=target).to_json()})
    write_bytes(folder / "labels.jsonl", title.encode())
    write_bytes(folder / "images" / "a.zip", b"pixels of " + title.encode())
    write_bytes(folder / "jobs" / "import.json", b"{}")
    if at:
        os.utime(folder / RECORD, (at, at))


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "projects" not in path.relative_to(folder).parts
    }


def test_away_and_back_again_are_the_same_bytes(folder: Path) -> None:
    work(folder, "first")
    before = content(folder)
    first = put_away(folder)
    assert content(folder) == {}
    work(folder, "second")
    put_away(folder, spare=first)
    take_up(folder, first)
    assert content(folder) == before
    assert [project.name for project in projects(folder)] == ["second"]


def test_only_the_last_five_are_kept_and_the_one_to_go_is_known(folder: Path) -> None:
    for number in range(KEPT):
        assert next_to_go(folder) is None
        work(folder, f"work {number}", at=1000.0 + number)
        put_away(folder)
    going = next_to_go(folder)
    assert going is not None
    assert going.name == "work 0"
    work(folder, "one more", at=2000.0)
    put_away(folder)
    assert [project.name for project in projects(folder)] == [
        "one more",
        *(f"work {n}" for n in (4, 3, 2, 1)),
    ]


def test_the_project_to_be_opened_is_never_the_one_that_goes(folder: Path) -> None:
    ids = []
    for number in range(KEPT):
        work(folder, f"work {number}", at=1000.0 + number)
        ids.append(put_away(folder))
    work(folder, "one more", at=2000.0)
    put_away(folder, spare=ids[0])
    take_up(folder, ids[0])
    assert (folder / "labels.jsonl").read_bytes() == b"work 0"


def test_a_move_cut_short_is_taken_back(folder: Path) -> None:
    work(folder, "first")
    before = content(folder)
    half = folder / "projects" / new_id()
    half.mkdir(parents=True)
    os.rename(folder / "labels.jsonl", half / "labels.jsonl")
    recover(folder)
    assert content(folder) == before
    assert projects(folder) == ()


def test_rename_duplicate_and_delete(folder: Path) -> None:
    work(folder, "first", at=1000.0)
    first = put_away(folder)
    rename(folder, first, "  mine  ")
    copy = duplicate(folder, first)
    assert {project.name for project in projects(folder)} == {"mine", "mine (copy)"}
    delete(folder, first)
    assert [project.id for project in projects(folder)] == [copy]


def test_a_project_travels_as_one_file(folder: Path, tmp_path: Path) -> None:
    work(folder, "first")
    path = pack(folder, tmp_path / "project.zip")
    assert str(tmp_path).encode() not in path.read_bytes()  # no path of this machine travels
    elsewhere = tmp_path / "sessions" / new_id()
    with path.open("rb") as file:
        project = unpack(file, elsewhere, 10**6)
    take_up(elsewhere, project)
    record = json.loads((elsewhere / RECORD).read_text())
    assert record["title"] == "first"
    assert record["target"] == str(elsewhere / "images" / "a.zip")
    assert (elsewhere / "images" / "a.zip").read_bytes() == b"pixels of first"
    assert not (elsewhere / "jobs").exists()


def archive(**files: bytes) -> io.BytesIO:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as target:
        for name, content in files.items():
            target.writestr(name, content)
    return data


@pytest.mark.parametrize(
    "files",
    [
        {"session.json": b"{}"},
        {MARK: b"{}", "../evil": b"x", "session.json": b"{}"},
        {MARK: b"{}", "images/../../evil": b"x", "session.json": b"{}"},
        {MARK: b"{}", "/etc/evil": b"x", "session.json": b"{}"},
        {MARK: b"{}", "jobs/import.json": b"{}", "session.json": b"{}"},
        {MARK: b"{}", "session.json": b"[" * 100_000},
        {MARK: b"{}", "session.json": b"not json"},
        {MARK: b"{}", "session.json": b"[]"},
        {MARK: b"{}"},
        {MARK: b"{}", "session.json": b"{}", "predictions.npz": bytes(3 << 20)},
        {MARK: b"{}", "session.json": b" " * (17 << 20)},
    ],
)
def test_a_project_file_that_is_none_is_refused_and_leaves_nothing(
    folder: Path, files: dict[str, bytes]
) -> None:
    limit = 32 << 20 if len(files.get("session.json", b"")) > 10**7 else 10**6
    with pytest.raises(UserError):
        unpack(archive(**files), folder, limit)
    assert projects(folder) == ()
    assert not (folder.parent / "evil").exists()
    assert not any(path.is_file() for path in folder.rglob("*"))


def test_no_zip_at_all_is_refused(folder: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        unpack(io.BytesIO(b"hello"), folder, 10**6)


@pytest.mark.parametrize("target", ["/etc", "../..", "images/../../..", 7, None, "jobs/x"])
def test_a_strangers_record_cannot_point_at_the_server(folder: Path, target: object) -> None:
    record = json.dumps({"origin": "file", "target": target, "bits": "many", "budget": []}).encode()
    project = unpack(archive(**{MARK: b"{}", "session.json": record}), folder, 10**6)
    take_up(folder, project)
    stored = Record.from_json(json.loads((folder / RECORD).read_text()))
    assert stored.target == ""
    assert stored.bits == Record().bits
    assert stored.budget is None
