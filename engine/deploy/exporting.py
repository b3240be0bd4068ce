"""The file of a tailored candidate for its export: the judged bytes where the store still has them, otherwise
built again from the same images.

Knows the store and the workshop. What is checked and written is the exporter's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from engine.deploy.calibration import read_calibration
from engine.deploy.workshop import Workshop
from engine.exports.ready import ReadyFile
from engine.family.kinds import Tailored
from engine.predictions.pixels import PoolOptions, prepare_pool
from engine.predictions.runner import ProgressReport
from engine.predictions.store import is_intact
from engine.target import ImageSet
from engine.types import Predictions, Teacher, UserError


def ready_file(
    teacher: Teacher,
    recipe: Tailored,
    *,
    store: Path,
    predictions: Predictions | None = None,
    images: ImageSet | None = None,
    on_progress: Callable[[ProgressReport], None] | None = None,
) -> ReadyFile:
    """Return the file to export. `predictions` name the bytes that were judged; `images`, the pool of that
    run, make them again.

    Raises UserError if the store does not have them and no images were given.
    """
    judged = _judged_hash(recipe, predictions)
    found = None if judged is None else _stored(store, recipe, judged)
    if found is None:
        if images is None:
            raise UserError(
                f"{recipe.slug} is made with calibration images, and its file is not in the store.",
                "Give the images of the run, in which the first half are the calibration images.",
                option=("images", "store"),
            )
        pool = prepare_pool(images, teacher.preprocessing, store, PoolOptions(skip_corrupt=True))
        n_calibration = pool.n_images // 2 if predictions is None else predictions.calibration
        calibration = read_calibration(teacher, pool.path, n_calibration)
        found = Workshop(calibration, store, on_progress).file(recipe).model.path
    about = json.loads(found.with_suffix(".json").read_text(encoding="utf-8"))
    return ReadyFile(
        slug=recipe.slug,
        content=found.read_bytes(),
        weight_bytes=float(about["weight_bytes"]),
        facts=about["facts"],
        notes=tuple(about["notes"]),
        judged_sha256=judged,
    )


def _judged_hash(recipe: Tailored, predictions: Predictions | None) -> str | None:
    if predictions is None or predictions.file_sha256 is None or recipe.slug not in predictions.names:
        return None
    return predictions.file_sha256[predictions.names.index(recipe.slug)] or None


def _stored(store: Path, recipe: Tailored, sha256: str) -> Path | None:
    """Return the stored file with this hash."""
    for path in sorted((store / "tailored").glob(f"*/{recipe.slug}.onnx")):
        stated = path.with_suffix(".sha256")
        known = stated.is_file() and stated.read_text(encoding="utf-8").startswith(sha256)
        if known and is_intact(path) and path.with_suffix(".json").is_file():
            return path
    return None
