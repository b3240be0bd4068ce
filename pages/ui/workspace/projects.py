"""Projects: pieces of work that were put away, beside the one at hand. Knows folders; nothing of Streamlit.

The work at hand lies at the top of a session's folder; each project is a folder below `projects` with the
same files. Putting away and taking up again are renames: nothing is copied, nothing half done is left behind.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from pages.ui.workspace.folder import RECORD, is_id, new_id, read_json, remove, write_json
from pages.ui.workspace.sharing import stop_sharing

PROJECTS = "projects"
KEPT = 5
_NAME_LENGTH = 60


@dataclass(frozen=True)
class Project:
    """One piece of work that was put away."""

    id: str
    name: str
    changed: float  # seconds since the epoch
    n_bytes: int
    chosen: str


def put_away(folder: Path, *, spare: str = "") -> str:
    """Move the work at hand among the projects and return its id; the oldest one beyond five is deleted, but
    never the one to `spare`.
    """
    project = new_id()
    home = folder / PROJECTS / project
    home.mkdir(parents=True)
    # The record goes last: a project without one is a move that was cut short, and `recover` takes it back.
    for path in sorted(_entries(folder), key=lambda path: path.name == RECORD):
        os.rename(path, home / path.name)
    _trim(folder, spare)
    return project


def _trim(folder: Path, spare: str = "") -> None:
    others = [old for old in projects(folder) if old.id != spare]
    for old in others[KEPT:]:
        delete(folder, old.id)


def keep_copy(folder: Path, *, without: tuple[str, ...] = ()) -> str:
    """Keep a copy of the work at hand among the projects and return its id; the work goes on."""
    project = new_id()
    home = folder / PROJECTS / project
    home.mkdir(parents=True)
    for path in sorted(_entries(folder), key=lambda path: path.name == RECORD):
        if path.name in without:
            continue
        if path.is_dir():
            shutil.copytree(path, home / path.name)
        else:
            shutil.copy2(path, home / path.name)
    stop_sharing(home)  # the link stays with the work that goes on
    _trim(folder)
    return project


def next_to_go(folder: Path) -> Project | None:
    """Return the project that putting one more away would delete, if there is one."""
    found = projects(folder)
    return found[KEPT - 1] if len(found) >= KEPT else None


def take_up(folder: Path, project: str) -> None:
    """Make a project the work at hand. What was at hand must have been put away before."""
    home = _home(folder, project)
    for path in sorted(home.iterdir(), key=lambda path: path.name == RECORD):
        os.rename(path, folder / path.name)
    home.rmdir()


def recover(folder: Path) -> None:
    """Take back what a move that was cut short had already put away."""
    for home in _homes(folder):
        if not (home / RECORD).exists():
            for path in home.iterdir():
                if not (folder / path.name).exists():
                    os.rename(path, folder / path.name)
            shutil.rmtree(home)


def projects(folder: Path) -> tuple[Project, ...]:
    """Return the projects that were put away, the latest first."""
    found = []
    for home in _homes(folder):
        record = read_json(home / RECORD)
        if record is not None:
            found.append(
                Project(
                    id=home.name,
                    name=str(record.get("project") or record.get("title") or "without a name"),
                    changed=(home / RECORD).stat().st_mtime,
                    n_bytes=sum(path.stat().st_size for path in home.rglob("*") if path.is_file()),
                    chosen=str(record.get("chosen", "")),
                )
            )
    return tuple(sorted(found, key=lambda project: project.changed, reverse=True))


def rename(folder: Path, project: str, name: str) -> None:
    """Give a project another name; an empty one brings its teacher's name back."""
    path = _home(folder, project) / RECORD
    changed = path.stat().st_mtime
    write_json(path, {**(read_json(path) or {}), "project": name.strip()[:_NAME_LENGTH]})
    os.utime(path, (changed, changed))  # a new name does not make the work newer


def duplicate(folder: Path, project: str) -> str:
    """Copy a project, to try something without touching it; return the copy's id."""
    copy, record = new_id(), read_json(_home(folder, project) / RECORD) or {}
    home = folder / PROJECTS / copy
    shutil.copytree(_home(folder, project), home)
    stop_sharing(home)  # a link belongs to one piece of work; switched off there, it must be off
    name = str(record.get("project") or record.get("title") or "")
    rename(folder, copy, f"{name[: _NAME_LENGTH - 7]} (copy)")
    return copy


def delete(folder: Path, project: str) -> None:
    """Delete a project for good."""
    remove(_home(folder, project))


def _home(folder: Path, project: str) -> Path:
    assert is_id(project), "a project's id never becomes another path"
    return folder / PROJECTS / project


def _homes(folder: Path) -> list[Path]:
    root = folder / PROJECTS
    return [path for path in root.iterdir() if is_id(path.name)] if root.is_dir() else []


def _entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name != PROJECTS]
