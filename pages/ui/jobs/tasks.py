"""What background jobs do, one function a kind: read a teacher, check images, run the family. Runs in the
worker's process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from engine.family.families import split_family
from engine.family.kinds import parse_any
from engine.teacher.facts import facts_of, teacher_of
from engine.teacher.request import LoadRequest
from engine.types import Recipe, Teacher, UserError
from pages.ui.jobs.worker import Desk
from pages.ui.workspace.folder import AS_READ, read_json, write_bytes, write_json
from pages.ui.workspace.hosting import hosting
from pages.ui.workspace.images import image_name, open_target
from pages.ui.workspace.weighing import CARRIED, WEIGHED, stamp_of, transport_costs

_PREVIEWED = 12
_SIZED = 300  # images whose size is looked at; enough to see whether they differ


def import_teacher(desk: Desk, **stated: Any) -> None:
    """Read a model into the one internal form and leave it, with its outline, in the session's folder.

    `stated` are the fields of a `LoadRequest`.
    """
    from onnx import ModelProto

    from engine.teacher.guarded import load_guarded
    from engine.teacher.normal_form import input_shape

    desk.report(0, 0, stage="weights and graph")
    teacher = load_guarded(
        LoadRequest.from_dict(stated),
        max_bytes=hosting().teacher_bytes,
        on_report=lambda stage, done, total: desk.report(done, total, stage=stage),
    )
    desk.report(0, 0, stage="storing it")
    write_bytes(desk.folder / "teacher.onnx", teacher.graph)
    write_json(
        desk.folder / AS_READ,
        {
            "preprocessing": teacher.preprocessing.to_json(),
            "size_is_open": None in input_shape(ModelProto.FromString(teacher.graph).graph)[1:],
            "stated": stated,
        },
    )
    write_json(desk.folder / "outline.json", facts_of(teacher))


def stored_teacher(folder: Path) -> Teacher:
    """Load the session's teacher with its weights; preprocessing and class names are those of the outline,
    which a person may have edited.
    """
    facts = read_json(folder / "outline.json")
    if facts is None:
        raise UserError("the teacher has not been read yet. Load it on the Teacher page.")
    return teacher_of(facts, (folder / "teacher.onnx").read_bytes())


def check_images(desk: Desk, target: str) -> None:
    """Decode every image once, find unreadable ones and duplicates, and fix the pool's order."""
    from engine.target import duplicates, pool_order, scan

    images = open_target(desk.folder, target, hosting().limits)
    bad = scan(
        images, on_progress=lambda done, total: desk.report(done, total, stage="looking at every image")
    )
    unusable = {image.name for image in bad}
    order = [int(index) for index in pool_order(images) if images.names[index] not in unusable]
    groups = duplicates(images)
    row_of = {index: row for row, index in enumerate(order)}
    shapes = [images.read(index).shape for index in order[:_SIZED]]
    checks = {
        "n_images": len(images),
        "order": order,
        "bad": [[image.name, image.reason] for image in bad[:200]],
        "n_bad": len(bad),
        "duplicates": [[images.names[index] for index in group[:5]] for group in groups[:100]],
        "duplicate_rows": [[row_of[index] for index in group if index in row_of] for group in groups],
        "heights": [min((s[0] for s in shapes), default=0), max((s[0] for s in shapes), default=0)],
        "widths": [min((s[1] for s in shapes), default=0), max((s[1] for s in shapes), default=0)],
        "n_duplicates": sum(len(group) - 1 for group in groups),
        "class_folders": list(images.class_folders or ()),
        "notes": list(images.notes),
    }
    write_json(desk.folder / "checks.json", checks)


def preview_teacher(desk: Desk, target: str) -> None:
    """Run the teacher on twelve images of the pool and leave what it saw and what it said."""
    from engine.predictions.preview import preview

    desk.report(0, 0, stage="a few images")
    teacher, images = stored_teacher(desk.folder), open_target(desk.folder, target, hosting().limits)
    checks = read_json(desk.folder / "checks.json")
    order = checks["order"] if checks else list(range(len(images)))
    step = max(1, len(order) // _PREVIEWED)
    found = preview(teacher, images, order[::step][:_PREVIEWED])
    np.save(desk.folder / "preview.npy", found.seen)
    write_json(
        desk.folder / "preview.json",
        {
            "preprocessing": teacher.preprocessing.to_json(),
            "classes": found.classes.tolist(),
            "probs": found.probs.tolist(),
            "range": [found.low, found.high],
        },
    )


def look_into_files(desk: Desk, place: str) -> None:
    """Look into model files that are to compete, and leave what they were found to be."""
    from pages.ui.jobs.file_tasks import describe

    desk.report(0, 0, stage="opening each file in a process of its own")
    describe(desk.folder, stored_teacher(desk.folder), place)


def run_family(desk: Desk, target: str, recipes: list[str], *, with_files: bool = False) -> None:
    """Run teacher and candidates over the pool, resuming what an earlier run finished, and leave the
    predictions file.
    """
    from engine.deploy.running import FamilyOptions, predict_family
    from engine.predictions.file import save_predictions
    from engine.predictions.runner import ProgressReport
    from pages.ui.jobs.file_tasks import described

    def show(progress: ProgressReport) -> None:
        desk.report(
            progress.done,
            progress.total,
            stage=progress.stage,
            rate=progress.images_per_second,
            seconds_left=progress.seconds_left,
        )

    files = described(desk.folder) if with_files else None
    family = [parse_any(name) for name in recipes]
    images = open_target(desk.folder, target, hosting().limits)
    predictions = predict_family(
        stored_teacher(desk.folder),
        family,
        images,
        store=desk.folder / "store",
        family=FamilyOptions(latency=bool(split_family(family)[1])),
        on_progress=show,
        cancel=desk.is_cancelled,
        skip_corrupt=True,
        outside=files.models if files else (),
        refused=files.refused if files else (),
    )
    if desk.is_cancelled():
        raise UserError("the run was cancelled. What it finished is kept: resume it on the Target data page.")
    temporary = desk.folder / "predictions.part.npz"
    save_predictions(predictions, temporary)
    os.replace(temporary, desk.folder / "predictions.npz")


def write_export(desk: Desk, slug: str, formats: list[str], target: str, **known: Any) -> None:
    """Write the candidate's file, re-run it, and leave the folder with its certificate and the bundle.

    Known are the teacher's `source` file and how it was loaded (`stated`), the `predictions` file the choice
    rests on, and its `evidence`.
    """
    from engine.deploy.exporting import ready_file
    from engine.exports.bundle import write_bundle
    from engine.exports.certified import ExportOrder, export_certified
    from engine.predictions.file import load_predictions

    desk.report(0, 0, stage="packing the weights")
    checks = read_json(desk.folder / "checks.json")
    if _ships_as_it_is(desk, slug, target, checks, known):
        return
    teacher, recipe = stored_teacher(desk.folder), parse_any(slug)
    predictions = load_predictions(known["predictions"]) if known.get("predictions") else None
    images = open_target(desk.folder, target, hosting().limits) if target else None
    is_fitted = not isinstance(recipe, Recipe)  # to images, so that making the file again needs them
    order = ExportOrder(
        teacher=teacher,
        recipe=(
            recipe
            if isinstance(recipe, Recipe)
            else ready_file(
                teacher, recipe, store=desk.folder / "store", predictions=predictions, images=images
            )
        ),
        predictions=predictions,
        images=images,
        evidence=known["evidence"],
        pool=checks["order"] if checks else None,
        formats=tuple(formats),
        source_path=Path(known["source"]) if known["source"] else None,
        stated=LoadRequest.from_dict(known["stated"]) if known.get("stated") else None,
        options={"images": image_name(target)} if is_fitted and target else {},
    )
    export_certified(
        order,
        desk.folder / "export",
        on_progress=lambda done, total: desk.report(
            done, total, stage="writing, then running the file in every way"
        ),
    )
    write_bundle(desk.folder / "export", desk.folder / "bundle.zip")


def _ships_as_it_is(
    desk: Desk, name: str, target: str, checks: dict[str, Any] | None, known: dict[str, Any]
) -> bool:
    """Write the export of a candidate that is a file, and say whether it is one."""
    from engine.predictions.file import load_predictions
    from pages.ui.jobs.file_tasks import described, ship

    model = next((model for model in described(desk.folder).models if model.name == name), None)
    if model is None:
        return False
    images = open_target(desk.folder, target, hosting().limits) if target else None
    judged = {
        "images": images,
        "order": checks["order"] if checks else None if images is None else list(range(len(images))),
        "predictions": load_predictions(known["predictions"]) if known.get("predictions") else None,
        "evidence": known["evidence"],
    }
    ship(desk.folder, model, stored_teacher(desk.folder).class_names, judged)
    return True


def run_study_job(
    desk: Desk, files: list[str], budgets: list[int], rates: list[float], rules: list[str]
) -> None:
    """Run the paper's protocol over predictions files and leave its results and report."""
    from engine.study.protocol.config import StudyConfig
    from engine.study.protocol.run import run_study
    from engine.study.report.page import write_report

    config = StudyConfig(budgets=tuple(budgets), rates=tuple(rates), rules=tuple(rules))
    result = run_study(
        files,
        desk.folder / "study",
        config,
        on_progress=lambda done, total: desk.report(done, total, stage="families studied"),
        cancel=desk.is_cancelled,
    )
    if result.cancelled:
        raise UserError(
            "the study was cancelled. Families already finished are kept: start it again to continue."
        )
    desk.report(0, 0, stage="writing the report")
    write_report(result)


def weigh_family(desk: Desk, path: str, shares: str = "") -> None:
    """Go through a large family once and leave its statistics, and what speaks against it, for the pages."""
    from engine.decide.choose import statistics_of
    from engine.decide.kept import kept_arrays
    from engine.diagnose.evidence import evidence_problems
    from engine.files.npz import write_npz
    from engine.predictions.file import load_predictions
    from engine.target.class_shares import shares_of

    source = Path(path)
    stamp, predictions = stamp_of(source, shares), load_predictions(source)
    stated = shares_of(shares, predictions.n_classes)
    kept = kept_arrays(
        statistics_of(predictions),
        predictions.class_shares if stated is None else stated,
        on_progress=lambda done, total: desk.report(done, total, stage="candidates gone through"),
        on_comparison=lambda done, total: desk.report(done, total, stage="parts of the pool compared"),
    )
    found = evidence_problems(
        predictions, on_progress=lambda done, total: desk.report(done, total, stage="looking for problems")
    )
    problems = np.array(found, dtype=str)
    write_npz(desk.folder / WEIGHED, {**kept, "problems": problems, "stamp": np.array(stamp)})


def carry_family(desk: Desk, path: str) -> None:
    """Make the costs of optimal transport of a large family, one candidate after the other, and leave each
    as it is found: one takes a gigabyte for seconds.
    """
    from engine.files.npz import write_npz
    from engine.predictions.file import load_predictions
    from engine.rules.statistics import TRANSPORT
    from engine.rules.transport import transport_cost

    source = Path(path)
    stamp, predictions = stamp_of(source), load_predictions(source)
    costs = transport_costs(desk.folder, source, predictions.n_candidates)
    for m in np.flatnonzero(np.isnan(costs)):
        costs[m] = transport_cost(predictions.candidates[m])
        write_npz(desk.folder / CARRIED, {TRANSPORT: costs, "stamp": np.array(stamp)})
        desk.report(int(np.isfinite(costs).sum()), len(costs), stage="candidates carried to the classes")


TASKS: dict[str, Callable[..., None]] = {
    "import": import_teacher,
    "files": look_into_files,
    "check": check_images,
    "preview": preview_teacher,
    "predict": run_family,
    "weigh": weigh_family,
    "carry": carry_family,
    "export": write_export,
    "study": run_study_job,
}
