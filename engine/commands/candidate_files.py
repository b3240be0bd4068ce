"""`predict --candidates-from`: files as candidates, and what stands in for a float teacher where there is
none.

Knows argparse namespaces. Looking into files is left to `engine.foreign`.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.commands.predict_arguments import choose_family
from engine.commands.teacher_arguments import load_request, load_stated_teacher, read_class_names
from engine.diagnose.agreement import agreements
from engine.family.cost import parse_budget
from engine.family.kinds import AnyRecipe
from engine.family.model_file import CONSENSUS, ModelFile, Refusal, StandIn
from engine.foreign.examine import Examined, Question, examine_files
from engine.foreign.found import Finding, find_files
from engine.teacher.graph import plain_preprocessing
from engine.types import Predictions, Preprocessing, Teacher, UserError


@dataclass(frozen=True, eq=False)
class Family:
    """Who competes, and with whom they are compared."""

    teacher: Teacher | StandIn
    recipes: tuple[AnyRecipe, ...] = ()
    files: tuple[ModelFile, ...] = ()
    refused: tuple[Refusal, ...] = ()

    @property
    def n_candidates(self) -> int:
        return len(self.recipes) + len(self.files)

    @property
    def preprocessing(self) -> Preprocessing:
        """How the images are prepared for the first of them: the teacher, or the first file."""
        if isinstance(self.teacher, Teacher):
            return self.teacher.preprocessing
        return self.files[0].input.preprocessing


def add_file_arguments(group: argparse._ArgumentGroup) -> None:
    """Add what `predict` may be told about files."""
    add_place_of_files(group)
    group.add_argument(
        "--with-family", action="store_true", help="let the family compete with --candidates-from"
    )


def add_place_of_files(group: argparse._ArgumentGroup) -> None:
    """Add where files are, and how they are read; --teacher may then be `consensus` or one of them."""
    group.add_argument(
        "--candidates-from",
        metavar="DIR|ZIP",
        help=(
            "judge the model files in it as they are: .onnx, .tflite, .keras, .h5, .pt2; --teacher may then"
            " be `consensus` or one of them"
        ),
    )
    group.add_argument("--output", help="output that holds the classes, for files with several")


def family_of_files(args: argparse.Namespace, store: Path) -> Family:
    """Find, look into and name the files; load the teacher, or put something in its place.

    Raises UserError if no file can be judged or the teacher cannot be used.
    """
    keep = store / "files"
    finding = find_files(args.candidates_from, keep)
    teacher, why = _teacher(args, finding)
    if teacher is not None:
        question = Question(teacher.preprocessing, teacher.n_classes, args.output)
        examined = examine_files(finding, question, keep)
        recipes = choose_family(teacher, args) if args.with_family else ()
        fitting = _within(args.budget, examined, teacher.float_bytes)
        return Family(teacher=teacher, recipes=recipes, files=fitting, refused=examined.refused)
    if args.with_family:
        raise UserError(
            "the family is made from a float teacher, and there is none. Give the float model, or leave"
            " --with-family out."
        )
    examined = examine_files(finding, Question(_stated(args), None, args.output), keep)
    largest = max(model.n_bytes for model in examined.models)
    stand_in, fitting = _stand_in(args, finding, examined, why), _within(args.budget, examined, largest)
    if stand_in.candidate not in (None, *(model.name for model in fitting)):
        raise UserError(
            f"{stand_in.candidate} is to stand in for the teacher and does not fit the budget {args.budget}.",
            "Leave the budget to `select`, or compare with the consensus.",
            option="budget",
        )
    return Family(teacher=stand_in, recipes=(), files=fitting, refused=examined.refused)


def _teacher(args: argparse.Namespace, finding: Finding) -> tuple[Teacher | None, UserError | None]:
    """Return the float teacher, or None where a file or the consensus stands in, and why it could not be
    loaded.
    """
    if args.teacher == CONSENSUS or (_named(args.teacher, finding) and not Path(args.teacher).is_file()):
        return None, None
    if Path(args.teacher).suffix.lower() == ".tflite":
        return None, UserError(
            f"{args.teacher} is none of the candidates. Name one of them.", option="teacher"
        )
    try:
        return load_stated_teacher(args), None
    except UserError as error:
        if _named(args.teacher, finding):  # a quantized file among the candidates is no float parent
            return None, error
        raise


def _named(text: str, finding: Finding) -> str | None:
    """Return the candidate that a name, a file name or a path means."""
    for file in finding.files:
        if text in (file.name, file.source, Path(file.source).name):
            return file.name
    path = Path(text)
    if path.is_file():
        same = (file.name for file in finding.files if file.path.exists() and path.samefile(file.path))
        return next(same, None)
    return None


def _stated(args: argparse.Namespace) -> Preprocessing | None:
    """Return the preprocessing that options state, None if they state nothing."""
    request = load_request(args)
    grey = request.channels == 1 or len(request.mean or ()) == 1
    plain = plain_preprocessing(1 if grey else 3, 224, 224)
    stated = request.preprocess(plain)
    return None if stated == plain else stated


def _stand_in(
    args: argparse.Namespace, finding: Finding, examined: Examined, why: UserError | None
) -> StandIn:
    n_classes = examined.models[0].output.n_classes
    names = read_class_names(args.class_names) or tuple(str(index) for index in range(n_classes))
    if len(names) != n_classes:
        raise UserError(
            f"{len(names)} class names were given and the files know {n_classes} classes. Give one name each."
        )
    if args.teacher == CONSENSUS:
        return StandIn(names)
    candidate = _named(args.teacher, finding)
    if candidate is None or candidate not in {model.name for model in examined.models}:
        refused = {refusal.name: refusal.reason for refusal in examined.refused}
        raise why or UserError(f"{candidate} cannot stand in for the teacher: {refused.get(candidate or '')}")
    return StandIn(names, candidate)


def _within(budget: str | None, examined: Examined, whole: int) -> tuple[ModelFile, ...]:
    if budget is None:
        return examined.models
    limit = parse_budget(budget, whole) * whole
    fitting = tuple(model for model in examined.models if model.n_bytes <= limit * (1 + 1e-9))
    if not fitting:
        smallest = min(model.n_bytes for model in examined.models)
        raise UserError(f"no file fits the budget {budget}; the smallest has {smallest:,} bytes. Allow more.")
    return fitting


def file_records(family: Family, predictions: Predictions) -> list[dict[str, Any]]:
    """Return what is known about every judged file, JSON-ready, with its agreement with the reference."""
    agreed = {agreement.name: agreement for agreement in agreements(predictions)}
    return [
        {
            "name": model.name,
            "format": model.format,
            "runtime": model.runtime,
            "bytes": model.n_bytes,
            "sha256": model.sha256,
            "preprocessing": model.input.preprocessing.to_json(),
            "notes": list(model.notes),
            "agreement": agreed[model.name].share,
            "at_chance": agreed[model.name].is_chance,
        }
        for model in family.files
        if model.name in agreed
    ]


def file_lines(records: list[dict[str, Any]]) -> list[str]:
    """Return one line for every judged file, what it is and how it agrees, and one for every assumption."""
    assumed: dict[str, list[str]] = {}
    for record in records:
        for note in record["notes"]:
            assumed.setdefault(note, []).append(record["name"])
    agreed = [
        f"{record['name']}: {record['format']}, {record['bytes'] / 1e6:.2f} MB, agrees on"
        f" {record['agreement']:.1%}{' - no more than chance' if record['at_chance'] else ''}"
        for record in records
    ]
    return agreed + [f"{_files(names, len(records))}: {note}" for note, names in assumed.items()]


def _files(names: list[str], n_files: int) -> str:
    if len(names) == n_files > 1:
        return "every file"
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
