"""`export`: write a candidate as packed ONNX with its certificate, and check that the file repeats what it
must.
"""

from __future__ import annotations

import argparse
import hashlib
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from engine.commands.select import labeled_sample
from engine.commands.teacher_arguments import add_teacher_arguments, load_stated_teacher
from engine.family.recipes import parse_candidate, parse_slug, standard_family
from engine.types import Floats, Predictions, Recipe, Teacher, UserError

if TYPE_CHECKING:
    from engine.exports.certificate import Certificate

HELP = "write a candidate as packed ONNX with its certificate"

_PATHS = ("teacher", "images", "predictions", "labels", "class_names")
_N_IMAGES = 16  # enough to show a difference, few enough to run every way in seconds


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_teacher_arguments(parser)
    parser.add_argument(
        "--candidate",
        help="its name or number, e.g. b4-channel-q99.5-ends or 26; without it, the pick of --method",
    )
    parser.add_argument("--out", required=True, help="folder to write: new, or with an earlier export")
    parser.add_argument(
        "--images", help="images to check the file with: folder, .zip, .npy or .npz (default: seeded noise)"
    )
    parser.add_argument("--n-images", type=int, default=_N_IMAGES, help="how many of them")
    parser.add_argument(
        "--max-opset",
        type=int,
        default=25,
        help="highest ONNX opset allowed; 2-bit integers need 25, else 21 is enough",
    )
    parser.add_argument("--formats", default="onnx", help="comma-separated: onnx, safetensors, packed, keras")
    parser.add_argument("--bundle", action="store_true", help="also write OUT.zip")
    evidence = parser.add_argument_group("evidence for the choice")
    evidence.add_argument(
        "--predictions",
        help="predictions .npz the choice rests on; its probabilities are what the file must repeat",
    )
    evidence.add_argument("--method", help="the rule that chose, as in `select`")
    evidence.add_argument("--labels", help="CSV of row,label or file,label")


def run(args: argparse.Namespace) -> dict[str, Any]:
    from engine.exports.bundle import write_bundle
    from engine.exports.evidence import check_predictions
    from engine.exports.place import check_folder, check_zip
    from engine.exports.writing import write

    if args.n_images < 1:
        raise UserError(f"--n-images is {args.n_images}; give at least 1.")
    formats = tuple(part.strip() for part in args.formats.split(","))
    check_folder(args.out, formats)
    zip_path = check_zip(_zip_path(args.out)) if args.bundle else None
    predictions, evidence = _evidence(args)
    recipe = _recipe(args, evidence)
    teacher = load_stated_teacher(args)
    if predictions is not None:
        check_predictions(predictions, teacher)
    rows = _rows(args, teacher, predictions, recipe) if args.images else _Rows(None, None)
    certificate = write(
        teacher,
        recipe,
        args.out,
        max_opset=args.max_opset,
        images=rows.images,
        judged=rows.judged,
        evidence=evidence,
        formats=formats,
        source_path=_source_path(args.teacher),
        command=_command(args, recipe),
        on_progress=_progress,
    )
    bundle = None if zip_path is None else str(write_bundle(args.out, zip_path))
    notes = (*certificate.notes, *_uncompared(predictions, rows, recipe))
    return {"folder": str(args.out), "bundle": bundle, **_record(certificate), "notes": list(notes)}


def _record(certificate: Certificate) -> dict[str, Any]:
    from engine.exports.report import size_words

    return {
        "recipe": certificate.recipe,
        "passed": certificate.passed,
        "failed": not certificate.passed,
        "finding": certificate.finding,
        "sha256": certificate.sha256,
        "checks": [asdict(check) for check in certificate.checks],
        "sizes": asdict(certificate.sizes),
        "sizes_in_words": size_words(certificate),
        "profiles": [asdict(profile) for profile in certificate.profiles],
    }


def _zip_path(out: str) -> Path:
    """Return OUT.zip beside the folder, also where the folder is given as `.` or `..`."""
    folder = Path(out) if Path(out).name not in ("", "..") else Path(out).resolve()
    if not folder.name:
        raise UserError(
            f"--bundle writes a zip beside the folder, and nothing lies beside {out!r}. Give another folder."
        )
    return folder.with_name(f"{folder.name}.zip")


def _uncompared(predictions: Predictions | None, rows: _Rows, recipe: Recipe) -> tuple[str, ...]:
    """Say it where predictions were given and the file was not compared with them."""
    if predictions is None or rows.judged is not None:
        return ()
    reason = (
        "give the --images they were made on to do so"
        if rows.images is None
        else f"they hold no {recipe.slug}"
    )
    return (f"The file was not compared with the predictions given: {reason}.",)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rexport: step {done} of {total}" + ("\n" if done >= total else ""))
        sys.stderr.flush()


def _source_path(spec: str) -> Path | None:
    """Return the file behind a teacher spec, which native copies build on; None for a model that has none
    here.
    """
    from engine.samples import FOLDER, SAMPLES

    kind, _, name = spec.partition(":")
    teacher = SAMPLES[name].teacher if kind == "sample" and name in SAMPLES else None
    path = FOLDER / teacher if teacher is not None else Path(spec)
    return path if path.is_file() else None


def _command(args: argparse.Namespace, recipe: Recipe) -> str:
    """Return the command that recreates the export; paths by their file names, which is all a stranger can
    use.
    """
    words = ["python", "-m", "engine", "export"]
    skipped = {"json", "debug", "sign", "out", "candidate", "bundle", "predictions", "method", "labels"}
    for name, value in vars(args).items():
        if (
            value is None
            or name in skipped
            or (name, value) in (("max_opset", 25), ("n_images", _N_IMAGES), ("formats", "onnx"))
        ):
            continue
        words += [
            f"--{name.replace('_', '-')}",
            Path(value).name if name in _PATHS and Path(value).exists() else str(value),
        ]
    return shlex.join([*words, "--candidate", recipe.slug, "--out", "DIR"])


# --- candidate and evidence ---------------------------------------------------------------


def _evidence(args: argparse.Namespace) -> tuple[Predictions | None, dict[str, Any]]:
    if args.predictions is None:
        if args.method or args.labels:
            raise UserError("--method and --labels need the --predictions they choose from.")
        return None, {}
    from engine.decide.choose import choose
    from engine.exports.evidence import choice_evidence
    from engine.predictions.file import load_predictions

    predictions = load_predictions(args.predictions)
    with Path(args.predictions).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    evidence: dict[str, Any] = {"predictions": Path(args.predictions).name, "predictions_sha256": digest}
    if args.method is not None:
        choice = choose(args.method, predictions, labeled_sample(predictions, args.labels))
        evidence |= choice_evidence(choice, predictions)
    return predictions, evidence


def _recipe(args: argparse.Namespace, evidence: dict[str, Any]) -> Recipe:
    picked = evidence.get("picked")
    if args.candidate is None:
        if picked is None:
            raise UserError(
                "no candidate was named. Give --candidate NAME, or --predictions FILE --method RULE to export"
                " its pick."
            )
        return parse_slug(picked)
    text = args.candidate.strip()
    recipe = parse_candidate(text, standard_family()) if text.lstrip("-").isdecimal() else parse_slug(text)
    if picked is not None and picked != recipe.slug:
        evidence["warnings"] = [
            *evidence["warnings"],
            f"{evidence['method']} picks {picked}; {recipe.slug} was exported on request.",
        ]
    return recipe


# --- images -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """Prepared images (n, ...) and what was judged on them (n, K), where that is known."""

    images: NDArray[np.float32] | None
    judged: Floats | None


def prepared_images(path: str, indices: list[int] | None, n: int, preprocessing: Any) -> NDArray[np.float32]:
    """Return n images of a set (or those at `indices`) as a model takes them, float32 (n, ...)."""
    from engine.target import UnreadableImageError, normalise, open_images, pool_order, prepare

    images = open_images(path)
    chosen = indices if indices is not None else [int(i) for i in pool_order(images)[:n]]
    try:
        return normalise(np.stack([prepare(images.read(i), preprocessing) for i in chosen]), preprocessing)
    except UnreadableImageError as error:  # `predict` can skip such images, a comparison cannot
        raise UserError(
            f"image {error.name!r} cannot be used: {error.reason}. Repair or remove it, or give other images."
        ) from error


def _rows(
    args: argparse.Namespace, teacher: Teacher, predictions: Predictions | None, recipe: Recipe
) -> _Rows:
    from engine.target import open_images

    if predictions is None or recipe.slug not in predictions.names:
        return _Rows(prepared_images(args.images, None, args.n_images, teacher.preprocessing), None)
    images = open_images(args.images)
    place = {name: index for index, name in enumerate(images.names)}
    if predictions.files is not None:
        found = [(row, place[file]) for row, file in enumerate(predictions.files) if file in place][
            : args.n_images
        ]
    else:  # predictions that name no files come from an array, row by row
        found = [(row, row) for row in range(min(args.n_images, predictions.n_images, len(images)))]
    if not found or (
        predictions.files is None and (images.kind != "array" or len(images) != predictions.n_images)
    ):
        raise UserError(
            "the predictions were not made on these images: no names match. Give the images of that run, or"
            " leave one out."
        )
    rows, indices = zip(*found, strict=True)
    judged = predictions.candidates[predictions.names.index(recipe.slug)][list(rows)]
    return _Rows(
        prepared_images(args.images, list(indices), args.n_images, teacher.preprocessing), np.asarray(judged)
    )


def summary(result: dict[str, Any]) -> str:
    failed = [check for check in result["checks"] if not check["passed"]]
    verdict = "it is NOT certified" if failed else f"the file {result['finding']}"
    lines = [f"{result['folder']}/model.onnx: {result['recipe']}; {verdict}.", result["sizes_in_words"]]
    lines += [f"failed: {check['sentence']}" for check in failed]
    return "\n".join([*lines, *result["notes"]])
