"""A project as one file: a zip of what a person made and gave, and reading a stranger's without trusting it.

Only names on the list are written or read; jobs, stores and paths of this machine never travel.
"""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path
from typing import IO, Any

from engine.files.zips import file_entries
from engine.types import UserError
from pages.ui.workspace.folder import AS_READ, RECORD, new_id, read_json, write_json
from pages.ui.workspace.project_checks import CHECKS, keep_if_sound
from pages.ui.workspace.project_teacher import GRAPH, OUTLINE, portable, read_again
from pages.ui.workspace.projects import PROJECTS

MARK = "anchorpoint-project.json"
_VERSION = 1
_FILES = (
    *(RECORD, "labels.jsonl", OUTLINE, GRAPH, "predictions.npz", CHECKS),
    *(AS_READ, "bundle.zip"),
)
_FOLDERS = ("images", "upload", "export", "candidates")
_NAME = re.compile(rf"(?:{'|'.join(map(re.escape, _FILES))}|(?:{'|'.join(_FOLDERS)})/[^\\:\x00]+)")
_SMALL = 16 << 20  # JSON and label files; models, predictions and images have the project's own bound
_MAX_ENTRIES = 50_000
# model files of one's own and shards that are opened where they lie do not travel
_OF_THIS_MACHINE: dict[str, Any] = {"files": "", "files_alone": False, "predictions_folder": ""}
_CHUNK = 1 << 20


def pack(home: Path, path: Path) -> Path:
    """Write the work in a folder (at hand, or a project) as one zip file and return its path."""
    temporary = path.with_suffix(".part")
    with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(MARK, json.dumps({"version": _VERSION}))
        for file in sorted(_travelling(home)):
            name = file.relative_to(home).as_posix()
            if name == RECORD:
                archive.writestr(name, json.dumps(_portable(read_json(file) or {}, home)))
            elif name == AS_READ:
                archive.writestr(name, json.dumps(portable(read_json(file) or {})))
            else:
                archive.write(file, name)
    temporary.replace(path)
    return path


def unpack(source: IO[bytes], folder: Path, max_bytes: int) -> str:
    """Add a project file to a session's projects and return its id.

    Raises UserError if it is not one of our project files, holds other names, or is larger than max_bytes.
    """
    project = new_id()
    home = folder / PROJECTS / project
    try:
        with zipfile.ZipFile(source) as archive:
            _check(archive, max_bytes)
            home.mkdir(parents=True)
            left = max_bytes
            for entry in file_entries(archive):
                if entry.filename != MARK:
                    left -= _copy(archive, entry, home / entry.filename, left)
        _localise(home, folder)
        keep_if_sound(home)
        read_again(home, max_bytes)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        shutil.rmtree(home, ignore_errors=True)
        raise UserError(
            f"this project file cannot be read ({str(error)[:80]}). Download the project again and open that"
            " file."
        ) from None
    except UserError:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return project


def _check(archive: zipfile.ZipFile, max_bytes: int) -> None:
    entries = archive.infolist()
    names = [entry.filename for entry in file_entries(archive)]
    if MARK not in names:
        raise UserError(
            "this zip is not a project file of Anchorpoint. Give the file that “Download” on the Projects"
            " page wrote."
        )
    if len(names) > _MAX_ENTRIES or sum(entry.file_size for entry in entries) > max_bytes:
        raise UserError(
            f"the project unpacks to more than {max_bytes / 1e6:,.0f} MB or {_MAX_ENTRIES:,} files, the most"
            " accepted here. Take images out of it, or open it on your own machine."
        )
    for name in names:
        if name != MARK and (not _NAME.fullmatch(name) or ".." in Path(name).parts):
            raise UserError(f"the project holds {name[:80]!r}, which no project of ours does. It is refused.")


def _copy(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path, left: int) -> int:
    """Copy one entry, counting what really comes out: sizes in a zip can lie."""
    limit = min(left, _SMALL) if path.suffix in (".json", ".jsonl") else left
    path.parent.mkdir(parents=True, exist_ok=True)
    taken = 0
    with archive.open(entry) as source, path.open("xb") as file:
        while chunk := source.read(_CHUNK):
            taken += len(chunk)
            if taken > limit:
                raise UserError(f"{entry.filename[:80]!r} is larger than it may be. The project is refused.")
            file.write(chunk)
    return taken


def _travelling(home: Path) -> list[Path]:
    alone = [home / name for name in _FILES if (home / name).is_file()]
    below = [path for name in _FOLDERS for path in (home / name).rglob("*") if path.is_file()]
    return alone + [path for path in below if not path.is_symlink()]


def _portable(record: dict[str, Any], home: Path) -> dict[str, Any]:
    """The record without this machine's paths: a target inside the folder is named from there."""
    record = {**record, **_OF_THIS_MACHINE}
    target = str(record.get("target", ""))
    if target in ("", "sample"):
        return record
    at_hand = home.parent.parent if home.parent.name == PROJECTS else home
    inside = [Path(target).relative_to(at_hand)] if Path(target).is_relative_to(at_hand) else []
    return {**record, "target": inside[0].as_posix() if inside else ""}


def _localise(home: Path, folder: Path) -> None:
    """Make the record of a project from elsewhere refer to this session's folder, and to nothing else."""
    try:
        record = read_json(home / RECORD)
    except UserError:
        record = None
    if record is None:
        raise UserError("the project file has no readable session.json. Download the project again.")
    record |= _OF_THIS_MACHINE
    target = record.get("target", "")
    is_ours = isinstance(target, str) and _NAME.fullmatch(f"{target}/x") and ".." not in Path(target).parts
    if target != "sample":
        # Once it is taken up, its files lie at the top of the session's folder.
        record["target"] = str(folder / target) if is_ours else ""
    write_json(home / RECORD, record)
