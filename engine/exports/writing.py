"""write: a teacher and a recipe become a folder with the exact model of that recipe and a certificate of what
was compared.

Knows which files there are and how they get in place. What they say is drafted elsewhere.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.exports.certificate import Certificate
from engine.exports.drafting import STEPS, Request, Steps, check_images, draft
from engine.exports.graph import OPSET_INT2, pack_model
from engine.exports.native import check_formats, native_copies
from engine.exports.place import CERTIFICATE, PART, check_folder, earlier_files
from engine.exports.recreate import CLASS_NAMES, class_names_text, recreate_command, written_otherwise
from engine.exports.report import bundle_readme, certificate_html, predict_script
from engine.files.hashing import sha256_of
from engine.teacher.request import LoadRequest
from engine.types import Floats, Progress, Recipe, Teacher


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
    """Write model.onnx, certificate.json, certificate.html, README.md, predict.py and the native copies asked
    for into `folder`.

    images: prepared float32 batch (n, ...) as the teacher takes it; judged: (n, K) probabilities that were
    judged on them (None: computed from the dequantized float graph). Without images, seeded noise is used and
    the certificate says so. formats: "onnx" and any of `FORMATS`; source_path: the checkpoint or .keras file
    the teacher was loaded from, which `safetensors` and `keras` copies build on. A certificate that did not
    pass is written all the same: look at `.passed`. Raises UserError if the recipe, a format or the images do
    not suit the teacher, or if `folder` holds files of the user's own that would be overwritten; an earlier
    export there is replaced.
    """
    source = Path(source_path) if source_path is not None else None
    stated, options = LoadRequest(spec=teacher.source), written_otherwise(max_opset, formats)
    made_by = command or recreate_command(teacher, recipe.slug, stated, options)
    request = Request(
        teacher=teacher,
        recipe=recipe,
        max_opset=max_opset,
        images=images,
        judged=judged,
        evidence=evidence,
        formats=tuple(formats),
        source_path=source,
        command=made_by,
        profiles=profiles,
    )
    check_formats(request.formats, source)
    check_images(request)
    target = check_folder(folder, request.formats)  # now, not after the work
    steps = Steps(on_progress)
    packed = pack_model(teacher, recipe, max_opset=max_opset)
    steps.tick()
    certificate = draft(request, packed, steps)
    certificate = put_in_place(
        target,
        packed.content,
        certificate,
        lambda part: native_copies(part, teacher, recipe, request.formats, source),
        class_names=teacher.class_names,
    )
    steps.tick(STEPS)
    return certificate


def put_in_place(
    target: Path,
    content: bytes,
    certificate: Certificate,
    copies: Callable[[Path], Iterable[str]],
    *,
    class_names: Sequence[str],
) -> Certificate:
    """Write model.onnx, the class names, what `copies` adds to the folder it is given, and the certificate's
    files; return the certificate with their hashes and the notes of `copies`.
    """
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=PART) as part:
        if names := class_names_text(class_names):
            (Path(part) / CLASS_NAMES).write_text(names, encoding="utf-8")
        certificate = _fill(Path(part), content, certificate, copies)
        _move(Path(part), target, certificate)
    return certificate


def _fill(
    part: Path, content: bytes, certificate: Certificate, copies: Callable[[Path], Iterable[str]]
) -> Certificate:
    """Write every file into the temporary folder and return the certificate with their hashes."""
    (part / "model.onnx").write_bytes(content)
    notes = copies(part)
    (part / "predict.py").write_text(predict_script(), encoding="utf-8")
    certificate = replace(certificate, notes=(*certificate.notes, *notes), files=_hashes(part))
    (part / "README.md").write_text(bundle_readme(certificate), encoding="utf-8")
    (part / "certificate.html").write_text(certificate_html(certificate), encoding="utf-8")
    certificate = replace(certificate, files=_hashes(part))
    (part / CERTIFICATE).write_text(certificate.to_json(), encoding="utf-8")
    return certificate


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir())}


def _move(part: Path, target: Path, certificate: Certificate) -> None:
    """Put the files in place, the certificate last: until then, what lies there does not verify."""
    for name in earlier_files(target) - {*certificate.files, CERTIFICATE}:
        (target / name).unlink(missing_ok=True)  # a copy of an earlier export would be another model
    for name in (*certificate.files, CERTIFICATE):
        os.replace(part / name, target / name)
