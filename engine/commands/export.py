"""`export`: write a candidate as packed ONNX with its certificate, and check that the file repeats what it
must.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.commands.candidate_files import add_place_of_files
from engine.commands.sample_images import images_at
from engine.commands.select import (
    add_limit_arguments,
    add_shares_argument,
    add_trust_argument,
    labeled_sample,
    limits_of,
    with_class_shares,
)
from engine.commands.teacher_arguments import add_teacher_arguments, load_request, load_stated_teacher
from engine.exports.certificate import SHIPPED_IMAGES
from engine.family.kinds import AnyRecipe, parse_any
from engine.family.recipes import parse_candidate, standard_family
from engine.types import Choice, Predictions, Recipe, Teacher, UserError

if TYPE_CHECKING:
    from engine.decide.briefing import Grounds
    from engine.exports.certificate import Certificate
    from engine.exports.ready import ReadyFile
    from engine.target import ImageSet

HELP = "write a candidate as packed ONNX with its certificate"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_teacher_arguments(parser)
    parser.add_argument(
        "--candidate",
        help="its name or number, e.g. b4-channel-q99.5-ends or 26; without it, the pick of --method",
    )
    parser.add_argument("--out", required=True, help="folder to write: new, or with an earlier export")
    parser.add_argument(
        "--images",
        help="images to check the file with: a folder, .zip, .npy, .npz or sample:digits (default: noise)",
    )
    parser.add_argument("--n-images", type=int, default=SHIPPED_IMAGES, help="how many of them")
    parser.add_argument(
        "--max-opset",
        type=int,
        default=25,
        help="highest ONNX opset allowed; 2-bit integers need 25, else 21 is enough",
    )
    parser.add_argument("--formats", default="onnx", help="comma-separated: onnx, safetensors, packed, keras")
    parser.add_argument(
        "--store",
        help="folder of resumable work, where files fitted to images are found again (as in `predict`)",
    )
    parser.add_argument("--bundle", action="store_true", help="also write OUT.zip")
    parser.add_argument(
        "--sign", metavar="KEY", help="sign the certificate with this Ed25519 private key (PEM)"
    )
    add_place_of_files(parser.add_argument_group("a file you already have"))
    evidence = parser.add_argument_group("evidence for the choice")
    evidence.add_argument(
        "--predictions",
        help="predictions .npz the choice rests on; its probabilities are what the file must repeat",
    )
    evidence.add_argument("--method", help="the rule that chose, as in `select`")
    evidence.add_argument("--labels", help="CSV of row,label or file,label")
    add_limit_arguments(evidence)
    add_trust_argument(evidence)
    add_shares_argument(evidence)


def run(args: argparse.Namespace) -> dict[str, Any]:
    from engine.exports.bundle import write_bundle
    from engine.exports.certified import ExportOrder, export_certified
    from engine.exports.evidence import evidence_record
    from engine.exports.place import check_folder, check_zip
    from engine.exports.signature import private_key, sign
    from engine.teacher.load import source_path

    if args.n_images < 1:
        raise UserError(f"--n-images is {args.n_images}; give at least 1.")
    if args.candidates_from is not None:
        from engine.commands.export_file import run_file_export

        return run_file_export(args, _grounds(args))
    formats = tuple(part.strip() for part in args.formats.split(","))
    check_folder(args.out, formats)
    zip_path = check_zip(_zip_path(args.out)) if args.bundle else None
    key = None if args.sign is None else private_key(args.sign)  # now, not after the work
    grounds = _grounds(args)
    recipe = _recipe(args, None if grounds is None else grounds.choice)
    images = images_at(args.images, _store(args)) if args.images else None
    predictions = None if grounds is None else grounds.predictions
    teacher = load_stated_teacher(args)
    order = ExportOrder(
        teacher=teacher,
        recipe=_ready(args, teacher, recipe, images, predictions),
        predictions=predictions,
        images=images,
        evidence={} if grounds is None else evidence_record(_of_teacher(grounds, teacher), recipe.slug),
        n_images=args.n_images,
        max_opset=args.max_opset,
        formats=formats,
        source_path=source_path(args.teacher),
        stated=load_request(args),
        options=_options(args),
    )
    certificate = export_certified(order, args.out, on_progress=_progress)
    if key is not None:
        sign(args.out, key)
    bundle = None if zip_path is None else str(write_bundle(args.out, zip_path))
    return {"folder": str(args.out), "bundle": bundle, **_record(certificate)}


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
        "notes": list(certificate.notes),
    }


def _zip_path(out: str) -> Path:
    """Return OUT.zip beside the folder, also where the folder is given as `.` or `..`."""
    folder = Path(out) if Path(out).name not in ("", "..") else Path(out).resolve()
    if not folder.name:
        raise UserError(
            f"--bundle writes a zip beside the folder, and nothing lies beside {out!r}. Give another folder."
        )
    return folder.with_name(f"{folder.name}.zip")


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rexport: step {done} of {total}" + ("\n" if done >= total else ""))
        sys.stderr.flush()


def _ready(
    args: argparse.Namespace,
    teacher: Teacher,
    recipe: AnyRecipe,
    images: ImageSet | None,
    predictions: Predictions | None,
) -> Recipe | ReadyFile:
    """Return a weight-only recipe as it is, and any other candidate as its finished file."""
    if isinstance(recipe, Recipe):
        return recipe
    from engine.commands.progress import progress_bar
    from engine.deploy.exporting import ready_file
    from engine.predictions.ownership import check_predictions

    if predictions is not None:
        check_predictions(predictions, teacher)  # before anything is built
    return ready_file(
        teacher,
        recipe,
        store=_store(args),
        predictions=predictions,
        images=images,
        on_progress=progress_bar(),
    )


def _store(args: argparse.Namespace) -> Path:
    from engine.predictions.store import default_store

    return Path(args.store).expanduser() if args.store else default_store()


def _options(args: argparse.Namespace) -> dict[str, str]:
    """Return what making the file again needs beside the teacher: its images, by their file name."""
    if not args.images:
        return {}
    count = {} if args.n_images == SHIPPED_IMAGES else {"n-images": str(args.n_images)}
    return {"images": Path(args.images).name, **count}


# --- candidate and evidence ---------------------------------------------------------------


def _grounds(args: argparse.Namespace) -> Grounds | None:
    if args.predictions is None:
        if args.method or args.labels or args.class_shares or limits_of(args).in_words():
            raise UserError(
                "--method, --labels, --class-shares, --budget and --max-latency need the --predictions they"
                " choose from."
            )
        return None
    from engine.decide.briefing import Grounds
    from engine.decide.choose import admissible_under, choose, statistics_of
    from engine.diagnose.evidence import evidence_problems
    from engine.predictions.file import load_predictions
    from engine.recommend.trust import label_trust

    path = Path(args.predictions)
    predictions = with_class_shares(load_predictions(path), args.class_shares)
    if args.method is None:
        known = labeled_sample(predictions, args.labels)
        return Grounds(predictions=predictions, path=path, sample=known, settled_by="named directly")
    sample, limits = labeled_sample(predictions, args.labels), limits_of(args)
    pool = statistics_of(predictions)
    choice = choose(
        args.method,
        predictions,
        sample,
        pool=pool,
        admissible=admissible_under(
            predictions, limits.memory, max_latency=limits.latency, max_bytes=limits.n_bytes
        ),
        trust=label_trust(args.label_trust),
    )
    settled_by = args.method if args.candidate is None else "named directly"
    return Grounds(
        predictions=predictions,
        choice=choice,
        sample=sample,
        pool=pool,
        path=path,
        limits=limits,
        problems=tuple(evidence_problems(predictions)),
        settled_by=settled_by,
    )


def _of_teacher(grounds: Grounds, teacher: Teacher) -> Grounds:
    return replace(grounds, preprocessing=teacher.preprocessing)


def _recipe(args: argparse.Namespace, choice: Choice | None) -> AnyRecipe:
    if args.candidate is not None:
        text = args.candidate.strip()
        return parse_candidate(text, standard_family()) if text.lstrip("-").isdecimal() else parse_any(text)
    if choice is None:
        raise UserError(
            "no candidate was named. Give --candidate NAME, or --predictions FILE --method RULE to export"
            " its pick."
        )
    return parse_any(choice.name)


def summary(result: dict[str, Any]) -> str:
    if "sizes_in_words" not in result:  # a file from elsewhere
        return "\n".join([f"{result['folder']}: {result['finding']}", *result["notes"]])
    failed = [check for check in result["checks"] if not check["passed"]]
    verdict = "it is NOT certified" if failed else f"the file {result['finding']}"
    lines = [f"{result['folder']}/model.onnx: {result['recipe']}; {verdict}.", result["sizes_in_words"]]
    lines += [f"failed: {check['sentence']}" for check in failed]
    return "\n".join([*lines, *result["notes"]])
