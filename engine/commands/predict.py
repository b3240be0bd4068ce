"""`predict`: run a teacher and its candidates over target images, or resume it, and write the predictions
file.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from engine.commands.candidate_files import (
    Family,
    add_file_arguments,
    family_of_files,
    file_lines,
    file_records,
)
from engine.commands.predict_arguments import (
    ENDS,
    GRANULARITIES,
    check_out,
    choose_family,
    pool_labels,
    stated_budget,
)
from engine.commands.progress import progress_bar
from engine.commands.sample_images import images_at
from engine.commands.teacher_arguments import add_teacher_arguments, load_stated_teacher
from engine.diagnose.agreement import agreements, chance_problems
from engine.diagnose.evidence import evidence_problems
from engine.family.families import FAMILIES, split_family
from engine.family.kinds import StaticRecipe
from engine.family.model_file import CONSENSUS
from engine.family.weights import ends_note
from engine.predictions.deployed import read_allocation
from engine.predictions.gather import labels_in_pool_order, reading
from engine.predictions.machine import available_cores
from engine.predictions.memory import peak_memory_estimate
from engine.predictions.pixels import Pool, PoolOptions, prepare_pool
from engine.predictions.runner import ProgressReport
from engine.predictions.store import default_store
from engine.target import ImageSet, duplicates, open_images
from engine.types import UNLABELED, Ints, Predictions, Teacher, UserError

HELP = "run a teacher and its quantized candidates over target images, or resume a run"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_teacher_arguments(parser)
    parser.add_argument(
        "--images", required=True, help="folder, .zip, .npy (N,H,W[,C]) or .npz with `images`"
    )
    parser.add_argument("--out", required=True, help="predictions to write: FILE.npz, or FOLDER/ of shards")
    parser.add_argument(
        "--dtype",
        choices=("float32", "float16"),
        help="store probabilities so; float16 halves the size (default: float32)",
    )
    _family_arguments(parser.add_argument_group("the family"))
    add_file_arguments(parser.add_argument_group("files you already have"))
    _label_arguments(parser.add_argument_group("labels and a test part for studies"))
    run = parser.add_argument_group("the run")
    run.add_argument("--workers", type=int, help="worker processes, one thread each (default: all cores)")
    run.add_argument(
        "--ray",
        metavar="ADDRESS|local",
        help="run on a Ray cluster, or on one started here; needs requirements-ray.txt",
    )
    run.add_argument(
        "--time-budget",
        type=float,
        metavar="MINUTES",
        help="stop then, and keep what is finished; the rest is marked missing",
    )
    run.add_argument(
        "--give-up-hopeless",
        action="store_true",
        help="end candidates early that are surely farther from the teacher than guessing",
    )
    run.add_argument(
        "--skip-corrupt", action="store_true", help="leave out images that cannot be read, and list them"
    )
    run.add_argument(
        "--store", help="folder for resumable work (default: $ANCHORPOINT_STORE or ~/.cache/anchorpoint)"
    )
    run.add_argument(
        "--seed",
        type=int,
        default=0,
        help="of the pool's order; folders and zips are shuffled, arrays keep their rows",
    )


def _family_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--budget", help="run only candidates within this weight memory: 0.22, 22%% or 1.1MB")
    group.add_argument(
        "--family",
        choices=FAMILIES,
        help="paper: the 72 (default); deploy: also 8-bit activations, mixed and corrected; all: both",
    )
    group.add_argument(
        "--latency",
        action=argparse.BooleanOptionalAction,
        help="time every candidate beside the teacher (default: with the families deploy and all)",
    )
    group.add_argument(
        "--candidates",
        help="run only these, comma-separated: numbers of the standard 72, or names of any kind",
    )
    group.add_argument("--bits", help="custom grid: bit widths, e.g. 4,8")
    group.add_argument("--percentiles", help="custom grid: clip percentiles, e.g. 99.5,100")
    group.add_argument(
        "--granularity",
        choices=tuple(GRANULARITIES),
        help="custom grid: where a scale applies (lastaxis: Keras layouts)",
    )
    group.add_argument(
        "--ends",
        choices=tuple(ENDS),
        help="custom grid: keep the first and the last layer float, quantize them, or both",
    )


def _label_arguments(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--labels", help="CSV of row,label or file,label; rows count in the pool's order")
    group.add_argument(
        "--labels-from-folders",
        action="store_true",
        help="take each image's folder as its label (never done unasked)",
    )
    group.add_argument(
        "--test-images",
        help="labeled images for a study's test part; folder names or the labels of an .npz are its labels",
    )
    group.add_argument("--test-labels", help="CSV of file,label or row,label for --test-images")
    group.add_argument(
        "--test-fraction", type=float, help="hold out this share of the labeled pool as the test part"
    )
    group.add_argument(
        "--test-rows", type=int, help="hold out this many rows at the pool's end as the test part"
    )


# --- the run ------------------------------------------------------------------------------


def run(args: argparse.Namespace) -> dict[str, Any]:
    from engine.deploy.running import FamilyOptions, predict_family
    from engine.predictions.file import save_predictions
    from engine.predictions.split import hold_out

    _check(args)
    started = time.monotonic()
    plan = _make_plan(args)
    teacher, candidates = plan.family.teacher, plan.family.recipes
    timed = args.latency if args.latency is not None else bool(split_family(candidates)[1])
    predictions = predict_family(
        teacher,
        candidates,
        plan.images,
        store=plan.store,
        family=FamilyOptions(n_test=plan.n_test, budget=stated_budget(teacher, args), latency=timed),
        labels=plan.labels,
        workers=args.workers,
        ray=args.ray,
        on_progress=plan.bar,
        time_budget=(
            None if args.time_budget is None else 60 * args.time_budget - (time.monotonic() - started)
        ),
        skip_corrupt=args.skip_corrupt,
        test=plan.test,
        options=plan.options,
        give_up_hopeless=args.give_up_hopeless,
        outside=plan.family.files,
        refused=plan.family.refused,
    )
    if plan.n_test:
        predictions = hold_out(predictions, plan.n_test)
    save_predictions(predictions, args.out, dtype=args.dtype)
    return _record(args.out, plan, predictions, time.monotonic() - started)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Everything checked and read before the long part starts: a wrong label must not surface an hour
    later.
    """

    family: Family
    images: ImageSet
    pool: Pool
    labels: Ints | None
    test: tuple[ImageSet, Ints] | None
    n_test: int
    store: Path
    options: PoolOptions
    bar: Callable[[ProgressReport], None]


def _make_plan(args: argparse.Namespace) -> _Plan:
    from engine.predictions.split import check_hold_out

    store = Path(args.store).expanduser() if args.store else default_store()
    images = images_at(args.images, store)  # before the models: they take longer to look into
    family = _family(args, store)
    teacher, preprocessing = family.teacher, family.preprocessing
    options, bar = PoolOptions(skip_corrupt=args.skip_corrupt, seed=args.seed), progress_bar()
    pool = prepare_pool(images, preprocessing, store, options, on_progress=reading(bar))
    labels = pool_labels(images, pool, teacher, args.labels, args.labels_from_folders)
    n_test = args.test_rows or round((args.test_fraction or 0) * pool.n_images)
    if args.test_rows is not None or args.test_fraction is not None:
        check_hold_out(labels_in_pool_order(labels, pool, teacher.n_classes), n_test)
    test = None
    if args.test_images is not None:
        test_images = open_images(args.test_images)
        test_pool = prepare_pool(test_images, preprocessing, store, options, on_progress=reading(bar))
        from_folders = args.test_labels is None and test_images.labels is None
        test_labels = pool_labels(test_images, test_pool, teacher, args.test_labels, from_folders)
        assert test_labels is not None
        if (labels_in_pool_order(test_labels, test_pool, teacher.n_classes) == UNLABELED).any():
            raise UserError(
                "some test images have no label; a study needs them all. Label them or leave them out."
            )
        test = (test_images, test_labels)
    return _Plan(
        family=family,
        images=images,
        pool=pool,
        labels=labels,
        test=test,
        n_test=n_test,
        store=store,
        options=options,
        bar=bar,
    )


def _family(args: argparse.Namespace, store: Path) -> Family:
    if args.candidates_from is not None:
        return family_of_files(args, store)
    if args.with_family or args.output is not None or args.teacher == CONSENSUS:
        raise UserError(
            "--with-family, --output and --teacher consensus are about files to judge. Give them with"
            " --candidates-from."
        )
    teacher = load_stated_teacher(args)
    return Family(teacher, choose_family(teacher, args))


def _check(args: argparse.Namespace) -> None:
    if args.workers is not None and args.workers < 1:
        raise UserError(f"--workers is {args.workers}; give at least 1.")
    if args.time_budget is not None and not args.time_budget > 0:
        raise UserError(f"--time-budget is {args.time_budget:g} minutes; give more than 0.")
    if sum(option is not None for option in (args.test_images, args.test_fraction, args.test_rows)) > 1:
        raise UserError(
            "the test part is asked for in two ways. Use one of --test-images, --test-fraction and"
            " --test-rows."
        )
    if args.test_labels is not None and args.test_images is None:
        raise UserError("--test-labels needs the --test-images they belong to.")
    if args.test_fraction is not None and not 0 < args.test_fraction < 1:
        raise UserError(f"--test-fraction is {args.test_fraction:g}; it must lie between 0 and 1.")
    if args.seed < 0:
        raise UserError(f"--seed is {args.seed}; give a whole number from 0.")
    check_out(args.out)


# --- the report ---------------------------------------------------------------------------


def _record(out: str, plan: _Plan, predictions: Predictions, seconds: float) -> dict[str, Any]:
    repeats, teacher = duplicates(plan.images), plan.family.teacher
    files = file_records(plan.family, predictions)
    largest = max((record["bytes"] for record in files), default=0)
    return {
        "file": out,
        "teacher": plan.family.teacher.name,
        "reference": predictions.reference,
        "preprocessing": plan.family.preprocessing.to_json(),
        "n_images": predictions.n_images,
        "n_test": 0 if predictions.labels_test is None else len(predictions.labels_test),
        "n_classes": predictions.n_classes,
        "n_labels": int((predictions.labels != UNLABELED).sum()),
        "candidates": list(predictions.names),
        "missing": list(predictions.missing),
        "missing_reasons": list(predictions.missing_reasons),
        "latency": None if predictions.latency is None else np.asarray(predictions.latency).tolist(),
        "allocation": read_allocation(predictions.allocation),
        "files": files,
        "bytes": None if predictions.bytes is None else np.asarray(predictions.bytes).tolist(),
        "cost": None if predictions.cost is None else np.asarray(predictions.cost).tolist(),
        "skipped": [{"name": bad.name, "reason": bad.reason} for bad in plan.pool.bad],
        "duplicates": [[plan.images.names[i] for i in group] for group in repeats],
        "problems": [
            *(chance_problems(agreements(predictions), teacher.name) if files else ()),
            *evidence_problems(predictions),
        ],
        "notes": [*teacher.notes, *_family_notes(plan), *plan.images.notes, *_folder_note(plan)],
        "peak_memory_bytes": (
            peak_memory_estimate(
                teacher, plan.pool.n_images, plan.family.n_candidates, available_cores(), largest
            )
            if isinstance(teacher, Teacher)
            else None
        ),
        "seconds": round(seconds, 3),
    }


def _family_notes(plan: _Plan) -> list[str]:
    teacher, recipes = plan.family.teacher, plan.family.recipes
    if not isinstance(teacher, Teacher) or not recipes:
        return []
    notes = [ends_note(teacher)]
    if any(isinstance(recipe, StaticRecipe) for recipe in recipes):
        from engine.deploy.integers import float_operators_note

        notes.append(float_operators_note(teacher))
    return [note for note in notes if note is not None]


def _folder_note(plan: _Plan) -> list[str]:
    if plan.images.class_folders is None or plan.labels is not None:
        return []
    return [
        f"The images lie in {len(plan.images.class_folders)} folders; pass --labels-from-folders if those are"
        " their classes."
    ]


def _missing_lines(names: Sequence[str], reasons: Sequence[str]) -> list[str]:
    """Say what was not judged and why; what one reason keeps out is one line."""
    grouped: dict[str, list[str]] = {}
    for name, reason in zip(names, reasons, strict=False):
        grouped.setdefault(reason.removesuffix("."), []).append(name)
    return [f"not judged: {', '.join(group)}, because {reason}." for reason, group in grouped.items()]


def summary(result: dict[str, Any]) -> str:
    done, missing = len(result["candidates"]), len(result["missing"])
    test = f" and {result['n_test']} test images" if result["n_test"] else ""
    lines = [
        f"{result['file']}: {result['teacher']} and {done} of {done + missing} candidates on"
        f" {result['n_images']} images{test}, {result['n_labels']} labeled, in {result['seconds']:.0f} s."
    ]
    if result["files"]:
        lines += file_lines(result["files"])
    lines += _missing_lines(result["missing"], result["missing_reasons"])
    if result["latency"] is not None:
        lines.append("Times are relative to the float teacher, on this processor, one thread.")
    lines += [f"skipped {bad['name']}: {bad['reason']}" for bad in result["skipped"]]
    if result["duplicates"]:
        repeats = sum(len(group) - 1 for group in result["duplicates"])
        copies = f"{repeats} images repeat others" if repeats > 1 else "1 image repeats another"
        lines.append(f"{copies}, e.g. {' = '.join(result['duplicates'][0][:3])}.")
    return "\n".join([*lines, *result["notes"], *(f"Warning: {problem}" for problem in result["problems"])])
