"""What the `predict` command's arguments mean: a family and labels. Knows argparse namespaces,
runs nothing.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np

from engine.commands.numbers import numbers
from engine.family.cost import admissible, parse_budget
from engine.family.families import expected_costs, make_family, parse_family, possible_ends
from engine.family.kinds import AnyRecipe, parse_any
from engine.family.model_file import StandIn
from engine.family.recipes import (
    BITS,
    GRANULARITIES_STANDARD,
    PERCENTILES,
    custom_family,
    parse_candidate,
    standard_family,
)
from engine.predictions.pixels import Pool
from engine.target import ImageSet, labels_from_folders
from engine.target.labels import read_labels
from engine.types import UNLABELED, Granularity, Ints, Recipe, Teacher, UserError

ENDS = {"both": (False, True), "float": (True,), "quantized": (False,)}
GRANULARITIES: dict[str, tuple[Granularity, ...]] = {
    "both": GRANULARITIES_STANDARD,
    "tensor": ("tensor",),
    "channel": ("channel",),
    "lastaxis": ("lastaxis",),
    "tensor+lastaxis": ("tensor", "lastaxis"),
}


def check_out(out: str) -> None:
    """Refuse a path that neither an .npz file nor a predictions folder can be written to, before the long
    part starts.
    """
    path = Path(out)
    if not out.strip():
        raise UserError("--out is empty. Give a name, e.g. predictions.npz, or a folder, e.g. family/.")
    if out.endswith(("/", os.sep)) or path.is_dir():
        _check_out_folder(out, path)
    elif path.suffix != ".npz":
        raise UserError(
            f"--out is {out!r}; predictions are written as .npz, or as a folder of shards if the name ends in"
            f" /. Give {path.with_suffix('.npz').name} or {path.name}/."
        )
    if not path.absolute().parent.is_dir():
        raise UserError(f"the folder of --out {out!r} does not exist. Create it, or write elsewhere.")
    if not os.access(path.absolute().parent, os.W_OK):
        raise UserError(f"the folder of --out {out!r} cannot be written to. Write elsewhere.")


def _check_out_folder(out: str, path: Path) -> None:
    """Refuse a file, and a folder that holds anything but predictions: shards are removed when it is
    rewritten.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"--out is {out!r}, and that is a file. Give the name of a folder.")
    known = {"teacher.npy", "candidates", "meta.json", "test"}
    other = (
        next((own.name for own in path.iterdir() if own.name not in known), None) if path.is_dir() else None
    )
    if other is not None and not other.startswith("."):
        raise UserError(
            f"--out is the folder {out!r}, which holds {other} and is no predictions folder. Give a folder of"
            " its own, e.g. family/, or a file, e.g. predictions.npz."
        )


def _grid(teacher: Teacher, args: argparse.Namespace, budget: float | None) -> tuple[AnyRecipe, ...]:
    custom = [
        option
        for option in ("bits", "percentiles", "granularity", "ends")
        if getattr(args, option) is not None
    ]
    if args.candidates is not None:
        if custom:
            raise UserError(
                f"--candidates picks from the standard 72 and --{custom[0]} makes another grid. Use one of"
                " them."
            )
        chosen = [_candidate(text) for text in args.candidates.split(",")]
        if len(set(chosen)) < len(chosen):
            raise UserError(f"--candidates names one twice: {args.candidates}. Name each once.")
        return tuple(chosen)
    if args.family is not None:
        if custom:
            raise UserError(f"--family names a family and --{custom[0]} makes another grid. Use one of them.")
        return make_family(parse_family(args.family), teacher, budget)
    bits = numbers(args.bits, "--bits", float, "4,8") if args.bits is not None else BITS
    if not all(value in range(2, 9) for value in bits):
        raise UserError(f"--bits is {args.bits!r}; bit widths are whole numbers from 2 to 8.")
    percentiles = (
        numbers(args.percentiles, "--percentiles", float, "99.5,100")
        if args.percentiles is not None
        else PERCENTILES
    )
    return custom_family(
        [int(value) for value in bits],
        percentiles,
        GRANULARITIES[args.granularity or "both"],
        possible_ends(teacher) if args.ends is None else ENDS[args.ends],
    )


def _candidate(text: str) -> AnyRecipe:
    """Return the candidate a word names: a number of the standard 72, a name of theirs, or of any other
    kind.
    """
    if text.strip().lstrip("-").isdecimal():
        return parse_candidate(text, standard_family())
    recipe = parse_any(text)
    return parse_candidate(text, standard_family()) if isinstance(recipe, Recipe) else recipe


def stated_budget(teacher: Teacher | StandIn, args: argparse.Namespace) -> float | None:
    """Return the memory budget as a share of the float teacher, or None without one."""
    if args.budget is None or isinstance(teacher, StandIn):
        return None
    return parse_budget(args.budget, teacher.float_bytes)


def choose_family(teacher: Teacher, args: argparse.Namespace) -> tuple[AnyRecipe, ...]:
    """Return the recipes to run: the standard 72, another family, a custom grid or a list, within the budget
    if there is one.
    """
    budget = stated_budget(teacher, args)
    recipes = _grid(teacher, args, budget)
    if budget is None:
        return recipes
    relative = expected_costs(teacher, recipes)
    fitting = tuple(
        recipe for recipe, fits in zip(recipes, admissible(relative, budget), strict=True) if fits
    )
    if not fitting:
        raise UserError(
            f"no candidate fits the budget {args.budget}; the smallest needs {relative.min():.1%} of the"
            " teacher's memory. Allow more."
        )
    return fitting


def pool_labels(
    images: ImageSet, pool: Pool, teacher: Teacher | StandIn, csv: str | None, from_folders: bool
) -> Ints | None:
    """Return labels in the order of the ImageSet from a CSV, the folder names or the images' own .npz; None
    if there are none.

    Rows in the CSV count in the pool's order, as in the predictions file. Raises UserError if the labels do
    not fit.
    """
    if csv is not None and from_folders:
        raise UserError("labels are asked for twice, from a CSV and from folders. Use one of them.")
    if from_folders:
        return labels_from_folders(images, teacher.class_names)
    if csv is None:
        return images.labels
    sample = read_labels(
        csv,
        n_rows=pool.n_images,
        n_classes=teacher.n_classes,
        class_names=teacher.class_names,
        files=pool.files,
    )
    labels = np.full(len(images), UNLABELED, np.int64)
    labels[pool.order[sample.rows]] = sample.labels
    return labels
