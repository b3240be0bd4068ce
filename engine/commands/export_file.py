"""`export --candidates-from`: ship one of the files as it is, with its certificate. Knows argparse
namespaces.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.commands.candidate_files import family_of_files
from engine.decide.briefing import Grounds
from engine.exports.certified import places_of, prepared_images
from engine.exports.evidence import evidence_record
from engine.exports.foreign import FileOrder, export_file
from engine.family.model_file import ModelFile
from engine.predictions.store import default_store
from engine.target import open_images
from engine.types import UserError


def run_file_export(args: argparse.Namespace, grounds: Grounds | None) -> dict[str, Any]:
    """Find the file, compare it with its predictions on their images, and write the folder."""
    store = Path(args.store).expanduser() if args.store else default_store()
    args.with_family, args.budget = False, None
    family = family_of_files(args, store)
    name = args.candidate or (grounds.choice.name if grounds is not None and grounds.choice else None)
    model = next((model for model in family.files if model.name == name), None)
    if model is None:
        raise UserError(
            f"{name!r} is none of the files ({', '.join(file.name for file in family.files[:5])}, …). Give"
            " --candidate NAME, or --predictions FILE --method RULE."
        )
    order = _order(args, model, family.teacher.class_names, grounds)
    found = export_file(order, args.out)
    wrong = [check.sentence for check in found.checks if not check.passed]
    return {
        "folder": str(args.out),
        "recipe": model.name,
        "passed": found.passed,
        "failed": not found.passed,
        "finding": (
            f"{model.name}, {'NOT certified: ' + ' '.join(wrong) if wrong else found.checks[-1].sentence}"
        ),
        "sha256": model.sha256,
        "checks": [asdict(check) for check in found.checks],
        "notes": list(model.notes),
    }


def _order(
    args: argparse.Namespace, model: ModelFile, class_names: tuple[str, ...], grounds: Grounds | None
) -> FileOrder:
    if grounds is None:
        return FileOrder(model=model, class_names=class_names)
    predictions = grounds.predictions
    if model.name not in predictions.names:
        raise UserError(f"the predictions hold no {model.name}. Give those of the run that judged it.")
    index = predictions.names.index(model.name)
    if predictions.file_sha256 is not None and predictions.file_sha256[index] != model.sha256:
        raise UserError(
            f"the predictions judged another {model.name}: its bytes differ. Judge this file, or give that"
            " one."
        )
    evidence = evidence_record(grounds, model.name)
    if args.images is None:  # the decision is known, though the file cannot be compared
        return FileOrder(model=model, class_names=class_names, evidence=evidence)
    images = open_images(args.images)
    places = places_of(images, predictions, args.n_images)
    return FileOrder(
        model=model,
        class_names=class_names,
        images=prepared_images(images, list(places.values()), model.input.preprocessing),
        judged=predictions.candidates[index][list(places)],
        evidence=evidence,
    )
