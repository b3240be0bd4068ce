"""The certificate's content: what the packed bytes are compared with, every check, size and load profile.

Knows the order of the measurements. Hashes are added by `writing`, once there are files.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from engine import __version__
from engine.exports.certificate import Certificate, Check, Probe, plain
from engine.exports.graph import OPSET_INT2, PackedModel, float_model
from engine.exports.parity import (
    LIMIT,
    Comparison,
    Weights,
    check_rounded,
    check_weights,
    float_candidate,
    image_digests,
    reference_check,
    rounded_bits,
    rounding_limit,
    run_file,
    runtime_checks,
)
from engine.exports.profile import measure_profiles
from engine.exports.sizes import check_sizes, measure_sizes
from engine.family.weights import candidate_weights
from engine.teacher.agreement import random_images
from engine.teacher.facts import identity_of
from engine.types import Floats, Progress, Recipe, Teacher, UserError

T = TypeVar("T")

PROBE_SEED = 20260
PROBE_IMAGES = 4
KEPT_IMAGES = 32  # rows of the user's own images whose expected probabilities stay in the certificate
STEPS = 16  # packing, weights, nine runtime checks, reference, three profiles, files


@dataclass(eq=False)
class Steps:
    """Counts finished steps aloud."""

    on_progress: Progress | None
    done: int = 0

    def tick(self, to: int | None = None) -> None:
        """Report one more step, or the step `to`."""
        self.done = min(self.done + 1 if to is None else to, STEPS)
        if self.on_progress is not None:
            self.on_progress(self.done, STEPS)

    def counted(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, one step each."""
        for item in items:
            yield item
            self.tick()


@dataclass(frozen=True, eq=False)
class Request:
    """What is exported, and what is asked of the export."""

    teacher: Teacher
    recipe: Recipe
    max_opset: int = OPSET_INT2
    images: NDArray[np.float32] | None = None
    judged: Floats | None = None
    evidence: Mapping[str, Any] | None = None
    formats: Collection[str] = ("onnx",)
    source_path: Path | None = None
    command: str = ""
    profiles: bool = True


def check_images(request: Request) -> None:
    """Raise UserError if images and judged predictions do not fit the teacher or each other."""
    teacher, images, judged = request.teacher, request.images, request.judged
    if images is None:
        if judged is not None:
            raise UserError(
                "judged predictions were given without the images they belong to. Give both, or neither."
            )
        return
    shape = random_images(1, teacher.preprocessing, 0).shape[1:]
    if images.ndim != 4 or images.shape[1:] != shape or not len(images):
        raise UserError(
            f"the images have shape {images.shape}; {teacher.name} takes (n, {', '.join(map(str, shape))})."
        )
    if judged is not None and judged.shape != (len(images), teacher.n_classes):
        wanted = (len(images), teacher.n_classes)
        raise UserError(
            f"the judged predictions have shape {judged.shape}; {wanted} is needed, one row per image."
        )


def draft(request: Request, packed: PackedModel, steps: Steps) -> Certificate:
    """Run every check and measurement on the packed bytes and return the certificate, still without
    hashes.
    """
    teacher, recipe = request.teacher, request.recipe
    weights = candidate_weights(teacher, recipe)
    trial = _trial(request, weights)
    checks = list(steps.counted(_checks(request, packed.content, trial.comparison, weights)))
    sizes = measure_sizes(teacher, recipe, packed.content, request.max_opset)
    checks += [*trial.checks, check_sizes(sizes)]
    measured = (
        measure_profiles(float_model(teacher), packed.content, teacher.preprocessing)
        if request.profiles
        else ()
    )
    return Certificate(
        recipe=recipe.slug,
        teacher=identity_of(teacher),
        model={
            "opset": packed.opset,
            "container_bits": packed.container_bits,
            "n_images": len(trial.comparison.images),
            "inputs": "noise" if request.images is None else "images",
            "judged": request.judged is not None,
        },
        checks=tuple(checks),
        sizes=sizes,
        profiles=tuple(steps.counted(measured)),
        probes=trial.probes,
        files={},
        evidence=plain(request.evidence or {}),
        versions=versions(),
        command=request.command,
        notes=(*packed.notes, trial.note, *_rounding_note(trial.comparison.limit)),
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    """What the file is compared with, what of it stays in the certificate, and where it came from."""

    comparison: Comparison
    probes: tuple[Probe, ...]
    note: str
    checks: tuple[Check, ...] = ()


def _trial(request: Request, weights: Weights) -> _Trial:
    """Seeded noise always, so that anyone can repeat the comparison; the user's images where there are any.

    Predictions stored in half precision, or with few bits, are too coarse to compare a file with: they check
    the float graph, and that checks the file.
    """
    teacher = request.teacher
    candidate = float_candidate(teacher, weights)
    noise = random_images(PROBE_IMAGES, teacher.preprocessing, PROBE_SEED)
    expected, limit = (
        run_file(candidate, noise, teacher.output),
        rounding_limit(candidate, noise, teacher.output),
    )
    probe = Probe.of(expected, limit, seed=PROBE_SEED)
    if request.images is None:
        note = (
            f"No images were given: the checks ran on {PROBE_IMAGES} images of seeded noise (seed"
            f" {PROBE_SEED}), against predictions of the dequantized float graph, made now."
        )
        return _Trial(Comparison(noise, expected, teacher.output, limit), (probe,), note)
    images = np.ascontiguousarray(request.images, np.float32)
    stored = request.judged
    extra: tuple[Check, ...] = ()
    judged, origin = stored, "their stored predictions"
    bits = None if stored is None else rounded_bits(stored)
    if judged is None or bits is not None:
        judged, origin = (
            run_file(candidate, images, teacher.output),
            "predictions of the dequantized float graph, made now",
        )
        extra = () if stored is None or bits is None else (check_rounded(stored, judged, bits),)
    limit = rounding_limit(candidate, images, teacher.output)
    own = Probe.of(judged[:KEPT_IMAGES], limit, digests=image_digests(images[:KEPT_IMAGES]))
    note = f"The checks ran on {len(images)} of the user's images against {origin}."
    return _Trial(
        Comparison(images, np.asarray(judged, np.float64), teacher.output, limit), (probe, own), note, extra
    )


def _rounding_note(limit: float) -> tuple[str, ...]:
    if limit <= LIMIT:
        return ()
    return (
        (
            "This model magnifies float32 rounding: the float graph differs from itself between optimization"
            f" levels, so {limit:.1e} is allowed."
        ),
    )


def _checks(request: Request, content: bytes, comparison: Comparison, weights: Weights) -> Iterator[Check]:
    yield check_weights(content, request.teacher, request.recipe, weights)
    yield from runtime_checks(content, comparison)
    yield reference_check(content, comparison)


def versions() -> dict[str, str]:
    """Return the versions of what wrote and checked the file."""
    packages = ("numpy", "onnx", "onnxruntime")
    return {
        "anchorpoint": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
    }
