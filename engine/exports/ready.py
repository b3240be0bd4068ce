"""A candidate that is a finished file, such as one with integer activations: written as it is, with a
certificate of what was compared.

Knows bytes and what was judged. How the file was made is told by its facts, which the certificate keeps.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.exports.certificate import Certificate, Check, Probe, Sizes, plain
from engine.exports.drafting import KEPT_IMAGES, PROBE_IMAGES, PROBE_SEED, Steps, versions
from engine.exports.graph import float_model
from engine.exports.integer_parity import (
    check_definition,
    has_integer_activations,
    integer_checks,
    integer_limit,
)
from engine.exports.parity import (
    Comparison,
    image_digests,
    rounding_limit,
    run_file,
    runtime_checks,
)
from engine.exports.place import check_folder
from engine.exports.profile import measure_profiles
from engine.exports.sizes import bytes_by_type
from engine.exports.writing import put_in_place
from engine.teacher.agreement import random_images
from engine.teacher.facts import identity_of
from engine.types import Floats, Progress, Teacher, UserError

_HALF = 2.0**-11  # predictions stored in half precision are rounded by up to half of that


@dataclass(frozen=True, eq=False)
class ReadyFile:
    """The bytes of a candidate called `slug`. `weight_bytes` is what its weights take at their true width;
    `facts` (ready for JSON) and `notes` go into the certificate; `judged_sha256` is the hash of the file
    whose predictions were judged, where that is known.
    """

    slug: str
    content: bytes
    weight_bytes: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    judged_sha256: str | None = None


@dataclass(frozen=True, eq=False)
class ReadyRequest:
    """What a finished file is compared with: prepared images (n, ...) and what was judged on them (n, K)."""

    images: NDArray[np.float32] | None = None
    judged: Floats | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    profiles: bool = True


def write_ready(
    teacher: Teacher,
    ready: ReadyFile,
    folder: str | Path,
    request: ReadyRequest,
    *,
    formats: Collection[str] = ("onnx",),
    on_progress: Progress | None = None,
) -> Certificate:
    """Write the file as model.onnx with its certificate into `folder`; an earlier export there is replaced.

    Raises UserError if another format than ONNX is asked for, or `folder` holds files of the user's own.
    """
    if set(formats) != {"onnx"}:
        raise UserError(
            f"{ready.slug} was fitted to images and exists as ONNX only.",
            "Leave the other formats out.",
            option="formats",
        )
    target = check_folder(folder, ("onnx",))
    steps = Steps(on_progress)
    certificate = _draft(teacher, ready, request, steps)
    return put_in_place(target, ready.content, certificate, lambda _: (), class_names=teacher.class_names)


def _draft(teacher: Teacher, ready: ReadyFile, request: ReadyRequest, steps: Steps) -> Certificate:
    """Run every check and measurement and return the certificate, still without hashes."""
    trial = _trial(teacher, ready, request)
    integer = has_integer_activations(ready.content)
    checks = list(steps.counted(_checks(ready, trial.comparison, integer)))
    measured = (
        measure_profiles(float_model(teacher), ready.content, teacher.preprocessing)
        if request.profiles
        else ()
    )
    profiles = tuple(
        profile for profile in steps.counted(measured) if not (integer and profile.name == "folded")
    )
    model = onnx.ModelProto.FromString(ready.content)
    return Certificate(
        recipe=ready.slug,
        teacher=identity_of(teacher),
        model={
            "opset": next(int(i.version) for i in model.opset_import if i.domain in ("", "ai.onnx")),
            "container_bits": 8,
            "n_images": len(trial.comparison.images),
            "inputs": "noise" if request.images is None else "images",
            "judged": request.judged is not None,
            "integer_activations": integer,
            "facts": plain(ready.facts),
        },
        checks=tuple(checks),
        sizes=_sizes(teacher, ready),
        profiles=profiles,
        probes=trial.probes,
        files={},
        evidence=plain(request.evidence),
        versions=versions(),
        command=request.command,
        notes=(*ready.notes, trial.note),
    )


@dataclass(frozen=True, eq=False)
class _Trial:
    comparison: Comparison
    probes: tuple[Probe, ...]
    note: str


def _trial(teacher: Teacher, ready: ReadyFile, request: ReadyRequest) -> _Trial:
    """Keep what the file answers to seeded noise, so that anyone can repeat it; compare on the user's images
    where there are any.
    """
    limit_of = integer_limit if has_integer_activations(ready.content) else rounding_limit
    noise = random_images(PROBE_IMAGES, teacher.preprocessing, PROBE_SEED)
    expected = run_file(ready.content, noise, teacher.output)
    limit = limit_of(ready.content, noise, teacher.output)
    probe = Probe.of(expected, limit, seed=PROBE_SEED)
    if request.images is None:
        note = (
            f"No images were given: the checks ran on {PROBE_IMAGES} images of seeded noise (seed"
            f" {PROBE_SEED})."
        )
        return _Trial(Comparison(noise, expected, teacher.output, limit), (probe,), note)
    images = np.ascontiguousarray(request.images, np.float32)
    judged, origin = request.judged, "their stored predictions"
    if judged is None:
        judged, origin = (
            run_file(ready.content, images, teacher.output),
            "the file's own, made now",
        )
    limit = limit_of(ready.content, images, teacher.output)
    if judged.dtype == np.float16:
        limit = max(limit, _HALF)
    own = Probe.of(judged[:KEPT_IMAGES], limit, digests=image_digests(images[:KEPT_IMAGES]))
    note = f"The checks ran on {len(images)} of the user's images against {origin}."
    comparison = Comparison(images, np.asarray(judged, np.float64), teacher.output, limit)
    return _Trial(comparison, (probe, own), note)


def _checks(ready: ReadyFile, comparison: Comparison, integer: bool) -> Iterator[Check]:
    if ready.judged_sha256:
        same = hashlib.sha256(ready.content).hexdigest() == ready.judged_sha256
        sentence = (
            "The file is, byte for byte, the one whose predictions were judged."
            if same
            else (
                "The file is not the one whose predictions were judged: other calibration images, or another"
                " version of onnxruntime."
            )
        )
        yield Check(name="judged bytes", passed=same, value=float(not same), limit=0.0, sentence=sentence)
    if not integer:
        yield from runtime_checks(ready.content, comparison)
        return
    yield from integer_checks(ready.content, comparison)
    yield check_definition(ready.content, comparison)


def _sizes(teacher: Teacher, ready: ReadyFile) -> Sizes:
    by_type = bytes_by_type(ready.content)
    weights = sum(by_type.values())
    return Sizes(
        file=len(ready.content),
        float_file=len(float_model(teacher)),
        weights=weights,
        float_weights=teacher.float_bytes,
        needed=weights,
        theory=ready.weight_bytes,
        by_type=by_type,
    )
