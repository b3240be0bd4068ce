"""What a visitor's clicks do about model files they already have: take them in, let them compete, drop
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import IO

from engine.foreign.examine import Examined
from engine.foreign.found import find_files
from engine.types import UserError
from pages.ui.jobs import control as jobs
from pages.ui.jobs.file_tasks import DESCRIBED, described
from pages.ui.session.actions import safe_name, store_upload
from pages.ui.session.record import Step
from pages.ui.session.state import Session
from pages.ui.workspace.folder import remove

MOST_FILES = 100


def known_files(session: Session) -> Examined:
    """Return the files as they were found to be; none before they were looked into."""
    path = session.folder / DESCRIBED
    stamp = path.stat().st_mtime_ns if path.exists() and session.record.files else 0
    return session.keep("files", stamp, lambda: described(session.folder) if stamp else Examined((), ()))


def n_candidates(session: Session) -> int:
    """How many candidates a run will judge."""
    files = known_files(session).models
    return len(files) + (0 if files and session.record.files_alone else len(session.recipes))


def use_place(session: Session, place: str) -> None:
    """Look into the model files of a folder or zip on the server."""
    if not session.host.allows_server_paths:
        raise UserError("this public demo opens no paths on the server. Upload the files instead.")
    found = Path(place).expanduser().resolve()
    if not place.strip():
        raise UserError("the path is empty. Give a folder or a zip of model files.")
    find_files(found, session.folder / "models")  # refused here, before anything is forgotten
    _look(session, found)


def upload_files(session: Session, uploads: Sequence[IO[bytes]]) -> None:
    """Keep uploaded model files (or one zip of them) and look into them."""
    if len(uploads) > MOST_FILES:
        raise UserError(f"{len(uploads)} files were uploaded; at most {MOST_FILES} are judged at once.")
    incoming = session.folder / "incoming-models"
    remove(incoming)
    room = session.host.teacher_bytes
    for index, upload in enumerate(uploads):
        name = safe_name(upload.name)
        path = incoming / (name if not (incoming / name).exists() else f"{index}-{name}")
        store_upload(session, upload, path, room)
        room -= path.stat().st_size
    kept = session.folder / "models" / "upload"
    single = [path for path in incoming.iterdir() if path.suffix.lower() == ".zip"]
    find_files(single[0] if len(uploads) == 1 and single else incoming, session.folder / "models")
    remove(kept)
    kept.parent.mkdir(parents=True, exist_ok=True)
    incoming.replace(kept)
    _look(session, kept / single[0].name if len(uploads) == 1 and single else kept)


def _look(session: Session, place: Path) -> None:
    remove(session.folder / DESCRIBED)
    session.change(keep=Step.LABELS, files=str(place), is_live=True)
    jobs.start(session.folder, "files", place=str(place))


def drop_files(session: Session) -> None:
    """Let recipes compete among themselves again."""
    jobs.forget(session.folder, "files")
    remove(session.folder / DESCRIBED)
    remove(session.folder / "models")
    session.change(keep=Step.LABELS, files="", files_alone=False)


def let_compete(session: Session, *, alone: bool) -> None:
    """Judge the files alone, or together with the recipes."""
    if alone != session.record.files_alone:
        session.change(keep=Step.LABELS, files_alone=alone, is_live=True)
