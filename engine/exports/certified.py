"""From (teacher, candidate, predictions, images, choice) to a certified file: the one way, for command and
app.

Knows which images the file is compared on and what was judged on them. Packing, checks and files are
`writing`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.exports.certificate import SHIPPED_IMAGES, Certificate
from engine.exports.graph import OPSET_INT2
from engine.exports.ready import ReadyFile, ReadyRequest, write_ready
from engine.exports.recreate import recreate_command, written_otherwise
from engine.exports.writing import write
from engine.predictions.ownership import check_predictions
from engine.target import ImageSet, UnreadableImageError, normalise, pool_order
from engine.teacher.request import LoadRequest
from engine.types import Floats, Predictions, Preprocessing, Progress, Recipe, Teacher, UserError


@dataclass(frozen=True, eq=False)
class ExportOrder:
    """A candidate to write, and what it is to be compared with.

    `predictions` are those the choice rests on: the file must repeat them on the first `n_images` of
    `images`. `evidence` is the record of the choice (`engine.exports.evidence.evidence_record`). A candidate
    that was fitted to images comes as its finished file instead of a recipe.
    """

    teacher: Teacher
    recipe: Recipe | ReadyFile
    predictions: Predictions | None = None
    images: ImageSet | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    pool: Sequence[int] | None = None  # which image each row of the predictions is, where that is known
    n_images: int = SHIPPED_IMAGES
    max_opset: int = OPSET_INT2
    formats: tuple[str, ...] = ("onnx",)
    source_path: Path | None = None  # the file the teacher was read from; native copies build on it
    stated: LoadRequest | None = None  # how the teacher was loaded; None: by the source it names
    options: Mapping[str, str] = field(default_factory=dict)  # further ones that making the file again needs


def export_certified(
    order: ExportOrder, folder: str | Path, *, on_progress: Progress | None = None
) -> Certificate:
    """Write the candidate into `folder`, run the file in every way, and return its certificate.

    Raises UserError if the predictions are not this teacher's, the images are not the predictions', or
    anything `write` refuses.
    """
    if order.predictions is not None:
        check_predictions(order.predictions, order.teacher)
    batch = _batch(order)
    if isinstance(order.recipe, ReadyFile):
        certificate = _write_ready(order, order.recipe, batch, folder, on_progress)
        return replace(certificate, notes=(*certificate.notes, *_uncompared(order, batch)))
    certificate = write(
        order.teacher,
        order.recipe,
        folder,
        max_opset=order.max_opset,
        images=batch.images,
        judged=batch.judged,
        evidence=order.evidence,
        formats=order.formats,
        source_path=order.source_path,
        command=_command(order),
        on_progress=on_progress,
    )
    return replace(certificate, notes=(*certificate.notes, *_uncompared(order, batch)))


def _write_ready(
    order: ExportOrder, ready: ReadyFile, batch: _Batch, folder: str | Path, on_progress: Progress | None
) -> Certificate:
    request = ReadyRequest(
        images=batch.images,
        judged=batch.judged,
        evidence=order.evidence,
        command=_command(order),
    )
    return write_ready(order.teacher, ready, folder, request, formats=order.formats, on_progress=on_progress)


def _command(order: ExportOrder) -> str:
    """Return the command that makes the file again."""
    stated = order.stated or LoadRequest(spec=order.teacher.source)
    options = {**order.options, **written_otherwise(order.max_opset, order.formats)}
    return recreate_command(order.teacher, order.recipe.slug, stated, options)


def first_images(
    images: ImageSet, n: int, preprocessing: Preprocessing, pool: Sequence[int] | None = None
) -> NDArray[np.float32]:
    """Return the first n images of the pool as a model takes them, float32 (n, ...)."""
    order = pool_order(images) if pool is None else pool
    return prepared_images(images, [int(index) for index in order[:n]], preprocessing)


def prepared_images(
    images: ImageSet, indices: Sequence[int], preprocessing: Preprocessing
) -> NDArray[np.float32]:
    """Return the images at `indices` as a model takes them, float32 (n, ...)."""
    try:
        return normalise(images.stacked(indices, preprocessing), preprocessing)
    except UnreadableImageError as error:  # `predict` can skip such images, a comparison cannot
        raise UserError(
            f"image {error.name!r} cannot be used: {error.reason}. Repair or remove it, or give other images."
        ) from error


@dataclass(frozen=True, eq=False)
class _Batch:
    """Prepared images (n, ...) and what was judged on them (n, K), where that is known."""

    images: NDArray[np.float32] | None = None
    judged: Floats | None = None


def _batch(order: ExportOrder) -> _Batch:
    images, predictions, slug = order.images, order.predictions, order.recipe.slug
    if images is None:
        return _Batch()
    if predictions is None or slug not in predictions.names:
        return _Batch(images=first_images(images, order.n_images, order.teacher.preprocessing, order.pool))
    places = places_of(images, predictions, order.n_images, order.pool)
    judged = predictions.candidates[predictions.names.index(slug)][list(places)]
    indices = list(places.values())
    return _Batch(
        images=prepared_images(images, indices, order.teacher.preprocessing), judged=np.asarray(judged)
    )


def places_of(
    images: ImageSet, predictions: Predictions, n_images: int, pool: Sequence[int] | None = None
) -> dict[int, int]:
    """Return which image each of the first rows of the predictions is, row -> index in the set."""
    if pool is not None:
        found = dict(enumerate(pool[: min(n_images, predictions.n_images)]))
    elif predictions.files is not None:
        place = {name: index for index, name in enumerate(images.names)}
        known = ((row, place[file]) for row, file in enumerate(predictions.files) if file in place)
        found = dict(list(known)[:n_images])
    elif images.kind == "array" and len(images) == predictions.n_images:
        # predictions that name no files come from an array, row by row
        found = {row: row for row in range(min(n_images, len(images)))}
    else:
        found = {}
    if not found:
        raise UserError(
            "the predictions were not made on these images: no names match. Give the images of that run, or"
            " leave one out."
        )
    return found


def _uncompared(order: ExportOrder, batch: _Batch) -> tuple[str, ...]:
    """Say it where predictions were given and the file was not compared with them."""
    if order.predictions is None or batch.judged is not None:
        return ()
    reason = (
        "give the images they were made on to do so"
        if batch.images is None
        else f"they hold no {order.recipe.slug}"
    )
    return (f"The file was not compared with the predictions given: {reason}.",)
