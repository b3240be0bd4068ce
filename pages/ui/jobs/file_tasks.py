"""Background work on model files that a visitor already has: look into them, and ship one. Runs in a job's
process.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from engine.family.model_file import ModelFile, Refusal
from engine.foreign.examine import Examined, Question, examine_files
from engine.foreign.found import find_files
from engine.types import Teacher
from pages.ui.workspace.folder import read_json, write_json

DESCRIBED = "files.json"  # in the session's folder: what the files were found to be


def describe(folder: Path, teacher: Teacher, place: str) -> None:
    """Look into the files at `place` and leave what was found beside the session's other results."""
    keep = folder / "models"
    question = Question(teacher.preprocessing, teacher.n_classes)
    found = examine_files(find_files(place, keep), question, keep)
    write_json(
        folder / DESCRIBED,
        {
            "models": [model.to_json() for model in found.models],
            "refused": [[refusal.name, refusal.reason] for refusal in found.refused],
        },
    )


def described(folder: Path) -> Examined:
    """Return what `describe` left; nothing if it never ran."""
    values: dict[str, Any] = read_json(folder / DESCRIBED) or {"models": [], "refused": []}
    return Examined(
        tuple(ModelFile.from_json(text) for text in values["models"]),
        tuple(Refusal(name, reason) for name, reason in values["refused"]),
    )


def ship(folder: Path, model: ModelFile, class_names: tuple[str, ...], known: dict[str, Any]) -> None:
    """Write a file's export and its zip; compared with the predictions where their images are at hand."""
    from engine.exports.certified import prepared_images
    from engine.exports.foreign import FileOrder, export_file

    images, order, predictions = known.get("images"), known.get("order"), known.get("predictions")
    ready = FileOrder(model=model, class_names=class_names, evidence=known["evidence"])
    if images is not None and predictions is not None and order and model.name in predictions.names:
        rows = list(range(min(16, len(order), predictions.n_images)))
        ready = FileOrder(
            model=model,
            class_names=class_names,
            images=prepared_images(images, [order[row] for row in rows], model.input.preprocessing),
            judged=predictions.candidates[predictions.names.index(model.name)][rows],
            evidence=known["evidence"],
        )
    export_file(ready, folder / "export")
    with zipfile.ZipFile(folder / "bundle.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted((folder / "export").iterdir()):
            archive.write(path, path.name)
