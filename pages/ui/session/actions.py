"""What a visitor's clicks do to the session: open a sample, load a model or a predictions file, take images
and labels in.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

from engine.family.kinds import AnyRecipe
from engine.predictions.file import load_predictions, load_sample_predictions
from engine.recommend.advice import FEW_LABELS
from engine.rules.sampling import draw_subset
from engine.samples import SAMPLES
from engine.target import open_images
from engine.target.labels import sample_from_array
from engine.teacher.request import LoadRequest
from engine.types import LabeledSample, UserError
from pages.ui.jobs import control as jobs
from pages.ui.session.labels import reveal_labels, take
from pages.ui.session.record import Step
from pages.ui.session.state import Session
from pages.ui.show.words import counted
from pages.ui.workspace.folder import AS_READ, read_json, remove
from pages.ui.workspace.quota import check_room
from pages.ui.workspace.uploads import as_target
from pages.ui.workspace.weighing import is_large

_COPY_BYTES = 1 << 20
_MOST_LABELS = 300  # of a large family's own labels; the study protocol's largest budget


def open_sample(session: Session, name: str) -> None:
    """Open a sample with its shipped predictions and 25 of its labels; its teacher is read in the
    background.
    """
    sample = SAMPLES[name]
    labels = load_sample_predictions(name).labels
    session.restart(origin="sample", title=sample.title, sample=name, target="sample")
    reveal_labels(session, FEW_LABELS, labels)
    if sample.teacher is not None:
        jobs.start(session.folder, "import", spec=f"sample:{name}")


def open_predictions(session: Session, upload: IO[bytes], name: str) -> None:
    """Check an uploaded predictions file and make it the session's evidence; its labels become the labeled
    sample.
    """
    path = session.folder / "incoming.npz"
    store_upload(session, upload, path, session.host.predictions_bytes)
    try:
        predictions = load_predictions(
            path, max_bytes=session.host.unpacked_bytes
        )  # before anything is forgotten
    except UserError as error:
        remove(path)
        raise UserError(error.problem.replace(path.name, safe_name(name), 1), error.remedy) from None
    session.restart(origin="predictions", title=safe_name(name))
    path.replace(session.folder / "predictions.npz")
    sample = sample_from_array(predictions.labels)
    if sample.n:
        take(session, sample, "replace", source="file", words=counted(sample.n, "label") + " from the file")


def open_predictions_folder(session: Session, where: str) -> None:
    """Open a predictions folder (or a large .npz) where it lies on the server's disk, and take its labels."""
    if not session.host.allows_server_paths:
        raise UserError("this public demo reads no files of its server. Upload a predictions file instead.")
    path = Path(where.strip()).expanduser()
    if not where.strip() or not path.exists():
        raise UserError(
            f"{where.strip()!r} is not there. Give the full path of a predictions folder or file."
        )
    predictions = load_predictions(path)  # refused here, before anything is forgotten
    session.restart(origin="predictions", title=safe_name(path.name), predictions_folder=str(path.resolve()))
    sample = sample_from_array(predictions.labels)
    if is_large(predictions) and sample.n > _MOST_LABELS:  # more would not fit beside a thousand classes
        kept = draw_subset(sample.n, _MOST_LABELS)
        sample = LabeledSample(sample.rows[kept], sample.labels[kept])
    if sample.n:
        take(session, sample, "replace", source="file", words=counted(sample.n, "label") + " from the file")


def check_stated(name: str, stated: LoadRequest) -> None:
    """Refuse bare weights that nobody named the architecture of, before anything is read or forgotten."""
    if name.lower().endswith((".safetensors", ".pth", ".pt")) and not (stated.arch and stated.classes):
        raise UserError(
            f"{name} holds weights without their architecture.",
            "Save a torch model with torch.export.save to a .pt2 file, or, for one of timm's, open “For bare"
            " weights” under the file and fill in two fields.",
            option=("arch", "classes"),
        )


def load_timm(session: Session, name: str, stated: LoadRequest) -> None:
    """Start reading a pretrained timm model by name."""
    if not session.host.allows_downloads:
        raise UserError(
            "this public demo downloads no weights. Start with a sample, or upload a small model."
        )
    if not name.strip():
        raise UserError("the model name is empty. Type a timm name such as resnet18.a1_in1k.")
    _start_import(session, f"timm:{name.strip()}", name.strip(), stated, origin="timm")


def load_path(session: Session, path: str, stated: LoadRequest) -> None:
    """Start reading a model file on the server."""
    if not session.host.allows_server_paths:
        raise UserError("this public demo opens no paths on the server. Upload the file instead.")
    found = Path(path).expanduser().resolve()
    if not found.is_file():
        raise UserError(f"there is no file {path!r} on the server. Give the full path of a model file.")
    check_stated(found.name, stated)
    _start_import(session, str(found), found.name, stated)


def load_upload(session: Session, upload: IO[bytes], name: str, stated: LoadRequest) -> None:
    """Keep an uploaded model file and start reading it."""
    check_stated(safe_name(name), stated)
    incoming = session.folder / "incoming.model"
    store_upload(session, upload, incoming, session.host.teacher_bytes)
    kept = session.folder / "upload" / safe_name(name)
    session.restart()
    kept.parent.mkdir(parents=True, exist_ok=True)
    incoming.replace(kept)
    _start_import(session, str(kept), kept.name, stated, drop=False)


def _start_import(
    session: Session, spec: str, title: str, stated: LoadRequest, *, origin: str = "file", drop: bool = True
) -> None:
    if drop:
        session.restart(origin=origin, title=title)
    else:
        session.change(keep=Step.TEACHER, origin=origin, title=title)
    jobs.start(session.folder, "import", **replace(stated, spec=spec).to_dict())


def store_upload(session: Session, upload: IO[bytes], path: Path, limit: int) -> None:
    """Copy an upload to disk, refusing it if it exceeds the limit, the visitor's part of the disk, or the
    disk.
    """
    n_bytes = upload.seek(0, os.SEEK_END)
    upload.seek(0)
    if n_bytes > limit:
        raise UserError(
            f"the upload is larger than {limit / 1e6:,.0f} MB, the most accepted here. Give a smaller file."
        )
    check_room(session.folder, session.host, n_bytes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            shutil.copyfileobj(upload, file, _COPY_BYTES)
    except OSError as error:
        with suppress(OSError):
            remove(path)
        raise UserError(
            f"the upload could not be saved ({error.strerror}). Free disk space, or ask whoever runs this"
            " server to, then upload it again."
        ) from None


def safe_name(name: str) -> str:
    """The last part of an uploaded file's name, without anything that could steer a path."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return "".join(c for c in last if c.isalnum() or c in "._- ")[-80:].lstrip(".") or "upload"


def use_images(session: Session, target: str) -> None:
    """Make a folder, zip or array on the server the target, and start checking it."""
    if not session.host.allows_server_paths:
        raise UserError("this public demo opens no paths on the server. Upload a zip instead.")
    found = Path(target).expanduser().resolve()
    open_images(found, limits=session.host.limits)  # refused here, before anything is forgotten
    session.keep_labels()
    session.change(keep=Step.CANDIDATES, target=str(found))
    jobs.start(session.folder, "check", target=str(found))


def use_sample_images(session: Session) -> None:
    """Make the sample's own images the target again."""
    session.keep_labels()
    session.change(keep=Step.CANDIDATES, target="sample")
    jobs.start(session.folder, "check", target="sample")


def upload_images(session: Session, uploads: Sequence[IO[bytes]]) -> None:
    """Keep uploaded images (one zip or array, or many image files) and start checking them."""
    limits, incoming = session.host.limits, session.folder / "incoming"
    if len(uploads) > limits.files:
        raise UserError(
            f"{len(uploads):,} files were uploaded; at most {limits.files:,} are accepted. Give a sample of"
            " them."
        )
    remove(incoming)
    room = limits.total_bytes
    for place, upload in enumerate(uploads):
        name = safe_name(upload.name)
        path = incoming / (name if not (incoming / name).exists() else f"{place}-{name}")
        store_upload(session, upload, path, room)
        room -= path.stat().st_size
    inside = as_target(incoming, limits).relative_to(incoming)
    open_images(incoming / inside, limits=limits)  # refused here, before anything is forgotten
    session.keep_labels()
    session.change(keep=Step.CANDIDATES)
    incoming.replace(session.folder / "images")
    target = str(session.folder / "images" / inside)
    session.change(keep=Step.TARGET, target=target)
    jobs.start(session.folder, "check", target=target)


def start_preview(session: Session) -> None:
    """Start running the teacher alone on a few images, to see whether it is fed as it should be."""
    jobs.start(session.folder, "preview", target=session.record.target)


def run_family(session: Session) -> None:
    """Start, or resume, running the family over the target."""
    session.change(keep=Step.RUN, is_live=True)
    record = session.record
    own = () if record.files and record.files_alone else family_to_run(session)
    arguments = {"recipes": [recipe.slug for recipe in own], "with_files": bool(record.files)}
    jobs.start(session.folder, "predict", target=record.target, **arguments)


def family_to_run(session: Session) -> tuple[AnyRecipe, ...]:
    """The family as it is run: with mixed candidates at the budget, where there is one."""
    from engine.family.families import make_family, parse_family

    record = session.record
    if record.family == "paper" or session.teacher is None or record.budget is None:
        return session.recipes
    return make_family(parse_family(record.family), session.teacher, record.budget)


def use_shipped(session: Session) -> None:
    """Go back to the predictions that ship with the sample."""
    session.change(keep=Step.LABELS, is_live=False)


def start_export(session: Session, name: str, formats: Sequence[str], evidence: dict[str, Any]) -> None:
    """Start writing a candidate's file and its certificate."""
    session.change(keep=Step.CHOICE, exported_at=len(session.events))
    target = session.record.target if session.has_images else ""
    jobs.start(
        session.folder,
        "export",
        slug=name,
        formats=["onnx", *formats],
        target=target,
        source=source_of(session),
        stated=_stated(session),
        predictions=str(session.predictions_path or ""),
        evidence=evidence,
    )


def _stated(session: Session) -> dict[str, Any]:
    """How the teacher was loaded; a project that came from elsewhere has no job, but what was stated."""
    job = jobs.stored_job(session.folder, "import")
    if job is not None:
        return dict(job.arguments)
    record, stated = session.record, as_read(session).get("stated")
    if isinstance(stated, dict) and not record.sample:
        known = {field.name for field in fields(LoadRequest)}
        return {"spec": record.title, **{name: value for name, value in stated.items() if name in known}}
    return {"spec": f"sample:{record.sample}" if record.sample else record.title}


def as_read(session: Session) -> dict[str, Any]:
    """What the teacher's file itself said of its input, and what was stated beside it; {} where an earlier
    version read it.
    """
    return read_json(session.folder / AS_READ) or {}


def source_of(session: Session) -> str:
    """The file the teacher was read from, where there is one; framework-native copies build on it."""
    from engine.teacher.load import source_path

    job = jobs.stored_job(session.folder, "import")
    path = source_path(str(job.arguments["spec"])) if job else None
    return "" if path is None else str(path)


def attach_teacher(session: Session, upload: IO[bytes], name: str, stated: LoadRequest) -> None:
    """Read the teacher of a predictions file, for the export alone: evidence and choice stay."""
    check_stated(safe_name(name), stated)
    path = session.folder / "upload" / safe_name(name)
    store_upload(session, upload, path, session.host.teacher_bytes)
    jobs.start(session.folder, "import", **replace(stated, spec=str(path)).to_dict())


def start_study(
    session: Session,
    files: Sequence[Path],
    budgets: Sequence[int],
    rates: Sequence[float],
    rules: Sequence[str],
) -> None:
    """Start the protocol over predictions files."""
    arguments = {"budgets": list(budgets), "rates": list(rates), "rules": list(rules)}
    jobs.start(session.folder, "study", files=[str(path) for path in files], **arguments)
