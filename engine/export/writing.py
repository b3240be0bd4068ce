"""write: a teacher and a recipe become a folder with the exact model that was judged and the certificate that says so.

Knows the order of the steps and where files go. Each step's own knowledge is in its module.
"""

from __future__ import annotations

import hashlib
import os
import platform
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine import __version__
from engine.export.certificate import Certificate, Check, Probe, plain
from engine.export.graph import OPSET_INT2, PackedModel, float_model, pack_model
from engine.export.native import FORMATS, check_formats, native_copies
from engine.export.parity import Comparison, check_weights, image_digests, judged_probabilities, reference_check, runtime_checks
from engine.export.profile import measure_profiles
from engine.export.report import bundle_readme, certificate_html, predict_script
from engine.export.sizes import check_sizes, measure_sizes
from engine.importers.agreement import random_images
from engine.types import Floats, Progress, Recipe, Teacher, UserError

PROBE_SEED = 20260
PROBE_IMAGES = 4
KEPT_IMAGES = 32  # rows of the user's own images whose judged probabilities stay in the certificate
_STEPS = 16  # packing, weights, nine runtime checks, reference, three profiles, files
_WRITTEN = ("model.onnx", "README.md", "predict.py", "certificate.html", "certificate.json", *(item.file for item in FORMATS.values()))


@dataclass(eq=False)
class _Steps:
    """Counts finished steps aloud."""

    on_progress: Progress | None
    done: int = 0

    def tick(self) -> None:
        self.done = min(self.done + 1, _STEPS)
        if self.on_progress is not None:
            self.on_progress(self.done, _STEPS)


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of an export beside teacher and recipe."""

    max_opset: int = OPSET_INT2
    images: NDArray[np.float32] | None = None
    judged: Floats | None = None
    evidence: Mapping[str, Any] | None = None
    formats: Collection[str] = ("onnx",)
    source_path: Path | None = None
    command: str | None = None
    profiles: bool = True


def write(
    teacher: Teacher,
    recipe: Recipe,
    folder: str | Path,
    *,
    max_opset: int = OPSET_INT2,
    images: NDArray[np.float32] | None = None,
    judged: Floats | None = None,
    evidence: Mapping[str, Any] | None = None,
    formats: Collection[str] = ("onnx",),
    source_path: str | Path | None = None,
    command: str | None = None,
    profiles: bool = True,
    on_progress: Progress | None = None,
) -> Certificate:
    """Write model.onnx, certificate.json, certificate.html, README.md, predict.py and the native copies asked for into `folder`.

    images: prepared float32 batch (n, ...) as the teacher takes it; judged: (n, K) probabilities that were judged on them
    (None: computed from the dequantized float graph). Without images, seeded noise is used and the certificate says so.
    formats: "onnx" and any of `FORMATS`; source_path: the checkpoint or .keras file the teacher was loaded from, which
    `safetensors` and `keras` copies build on. A certificate that did not pass is written all the same: look at `.passed`.
    Raises UserError if the recipe, a format or the images do not suit the teacher.
    """
    request = Request(
        max_opset, images, judged, evidence, tuple(formats), Path(source_path) if source_path is not None else None, command, profiles
    )
    _check_request(teacher, request)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    steps = _Steps(on_progress)
    packed = pack_model(teacher, recipe, max_opset=max_opset)
    steps.tick()
    draft = _draft(teacher, recipe, request, packed, steps)
    with tempfile.TemporaryDirectory(dir=target, prefix=".part-") as part:
        certificate = _fill(Path(part), teacher, recipe, request, packed, draft)
        _move(Path(part), target, certificate)
    steps.done = _STEPS - 1
    steps.tick()
    return certificate


def _check_request(teacher: Teacher, request: Request) -> None:
    check_formats(request.formats, request.source_path)
    if request.judged is not None and request.images is None:
        raise UserError("judged predictions were given without the images they belong to. Give both, or neither.")
    if request.images is None:
        return
    shape = random_images(1, teacher.preprocessing, 0).shape[1:]
    if request.images.ndim != 4 or request.images.shape[1:] != shape or not len(request.images):
        raise UserError(f"the images have shape {request.images.shape}; {teacher.name} takes (n, {', '.join(map(str, shape))}).")
    if request.judged is not None and request.judged.shape != (len(request.images), teacher.n_classes):
        wanted = (len(request.images), teacher.n_classes)
        raise UserError(f"the judged predictions have shape {request.judged.shape}; {wanted} is needed, one row per image.")


# --- the certificate ----------------------------------------------------------------------


def _draft(teacher: Teacher, recipe: Recipe, request: Request, packed: PackedModel, steps: _Steps) -> Certificate:
    """Run every check and measurement on the packed bytes; hashes are filled in once the files exist."""
    noise = random_images(PROBE_IMAGES, teacher.preprocessing, PROBE_SEED)
    expected = judged_probabilities(teacher, recipe, noise)
    probes = [Probe.of(expected, seed=PROBE_SEED)]
    comparison = Comparison(noise, expected, teacher.output)
    notes = [*packed.notes, "LiteRT (.tflite) is not offered: its converter chooses scales and integers of its own."]
    if request.images is None:
        notes.append(f"No images were given: the checks ran on {PROBE_IMAGES} images of seeded noise (seed {PROBE_SEED}).")
    else:
        images = np.ascontiguousarray(request.images, np.float32)
        judged = request.judged if request.judged is not None else judged_probabilities(teacher, recipe, images)
        comparison = Comparison(images, np.asarray(judged, np.float64), teacher.output)
        probes.append(Probe.of(comparison.judged[:KEPT_IMAGES], digests=image_digests(images[:KEPT_IMAGES])))
        origin = "their stored predictions" if request.judged is not None else "predictions of the dequantized float graph, made now"
        notes.append(f"The checks ran on {len(images)} of the user's images against {origin}.")
    checks = list(_ticked(_checks(teacher, recipe, packed, comparison), steps))
    sizes = measure_sizes(teacher, recipe, packed.content, request.max_opset)
    checks.append(check_sizes(sizes))
    measured = measure_profiles(float_model(teacher), packed.content, teacher.preprocessing) if request.profiles else ()
    return Certificate(
        recipe=recipe.slug,
        teacher=_teacher_facts(teacher),
        model={"opset": packed.opset, "container_bits": packed.container_bits, "n_images": len(comparison.images)},
        checks=tuple(checks),
        sizes=sizes,
        profiles=tuple(_ticked(measured, steps)),
        probes=tuple(probes),
        files={},
        evidence=plain(request.evidence or {}),
        versions=_versions(),
        command=request.command or _command(teacher, recipe, request),
        notes=tuple(notes),
    )


def _checks(teacher: Teacher, recipe: Recipe, packed: PackedModel, comparison: Comparison) -> Iterator[Check]:
    yield check_weights(packed.content, teacher, recipe)
    yield from runtime_checks(packed.content, comparison)
    yield reference_check(packed.content, comparison)


def _ticked(items: Any, steps: _Steps) -> Iterator[Any]:
    for item in items:
        yield item
        steps.tick()


def _teacher_facts(teacher: Teacher) -> dict[str, Any]:
    return {
        "name": teacher.name,
        "source": teacher.source,
        "fingerprint": teacher.fingerprint,
        "n_classes": teacher.n_classes,
        "n_kernels": len(teacher.kernels),
    }


def _versions() -> dict[str, str]:
    packages = ("numpy", "onnx", "onnxruntime")
    return {"anchorpoint": __version__, "python": platform.python_version(), **{name: version(name) for name in packages}}


def _command(teacher: Teacher, recipe: Recipe, request: Request) -> str:
    words = ["python -m engine export", f"--teacher {teacher.source}", f"--candidate {recipe.slug}"]
    if request.max_opset != OPSET_INT2:
        words.append(f"--max-opset {request.max_opset}")
    if set(request.formats) != {"onnx"}:
        words.append(f"--formats {','.join(sorted(request.formats))}")
    return " ".join([*words, "--out DIR"])


# --- files --------------------------------------------------------------------------------


def _fill(part: Path, teacher: Teacher, recipe: Recipe, request: Request, packed: PackedModel, draft: Certificate) -> Certificate:
    """Write every file into the temporary folder and return the certificate with their hashes."""
    (part / "model.onnx").write_bytes(packed.content)
    notes = native_copies(part, teacher, recipe, request.formats, request.source_path)
    draft = replace(draft, notes=(*draft.notes, *notes))
    (part / "predict.py").write_text(predict_script(), encoding="utf-8")
    names = sorted(path.name for path in part.iterdir())
    draft = replace(draft, files={name: _sha256(part / name) for name in names})
    (part / "README.md").write_text(bundle_readme(draft), encoding="utf-8")
    (part / "certificate.html").write_text(certificate_html(draft), encoding="utf-8")
    names = sorted(path.name for path in part.iterdir())
    certificate = replace(draft, files={name: _sha256(part / name) for name in names})
    (part / "certificate.json").write_text(certificate.to_json(), encoding="utf-8")
    return certificate


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _move(part: Path, target: Path, certificate: Certificate) -> None:
    """Put the files in place, the certificate last: until then, what lies there does not verify."""
    for name in _WRITTEN:
        if name not in certificate.files and name != "certificate.json":
            (target / name).unlink(missing_ok=True)  # a copy of an earlier export would be another model
    for name in (*certificate.files, "certificate.json"):
        os.replace(part / name, target / name)
