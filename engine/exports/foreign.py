"""Export a candidate that is somebody's file: the very same bytes, with a certificate of what was judged.

Knows the folder it leaves and how to check it again. The file itself runs in guarded processes only.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.exports import bundle_predict, foreign_predict
from engine.exports.certificate import Check
from engine.exports.foreign_page import file_page
from engine.exports.verification import Verification
from engine.family.model_file import ModelFile
from engine.files.hashing import sha256_of
from engine.files.whole_file import whole_file
from engine.foreign.session import FileSession, runtime_version
from engine.guard import Child, guarded, limits_for, stage
from engine.predictions.model import file_probabilities, read_judged
from engine.target import input_shape
from engine.teacher.reason import reason
from engine.types import Floats, UserError

FORMAT = "anchorpoint model file 1"
CERTIFICATE, IMAGES, PAGE = "certificate.json", "images.npy", "certificate.html"
_NAMES = ("model.onnx", "model.tflite")
SAME, OTHER = 1e-6, 1e-3  # largest difference in probability: in the runtime it was judged with, in another
_FIELDS = {"model": dict, "probabilities": list, "judged": bool, "inputs": str, "runtime": str}
_AGAIN = "Copy the export again, or ask for a new one."
_MAX_CERTIFICATE = 16 * 10**6
_IMPORT = "from engine.exports.bundle_predict import prepare  # in a bundle, its text stands here\n"


@dataclass(frozen=True, eq=False)
class FileOrder:
    """A file to ship. `images` (n, *input_shape) float32 are prepared as it takes them; `judged` (n, K) is
    what was stored for them, None if nothing was.
    """

    model: ModelFile
    class_names: tuple[str, ...]
    images: NDArray[np.float32] | None = None
    judged: Floats | None = None
    evidence: Mapping[str, Any] = field(default_factory=dict)


def export_file(order: FileOrder, folder: str | Path) -> Verification:
    """Copy the file into `folder` with its certificate, images and a script, then check the folder as anyone
    would.

    Raises UserError if the file changed since it was judged, or `folder` holds something else.
    """
    target = _free_folder(folder)
    content = read_judged(order.model)
    name = f"model{order.model.path.suffix.lower()}"
    images = _noise(order.model) if order.images is None else order.images
    files = {name: content, "predict.py": script().encode(), "README.md": _readme(order, name)}
    for other in {*_NAMES} - {name}:
        (target / other).unlink(missing_ok=True)  # of an earlier export: another model
    for file, data in files.items():
        _put(target / file, data)
    with whole_file(target / IMAGES) as out:
        np.save(out, images.astype(np.float32), allow_pickle=False)
    answers = run_guarded(order.model, target / IMAGES)
    promised = np.asarray(answers if order.judged is None else order.judged, np.float64)
    facts = {
        "format": FORMAT,
        "file": name,
        "model": json.loads(replace(order.model, path=Path(name)).to_json()),
        "runtime": runtime_version(order.model.runtime),
        "class_names": list(order.class_names),
        "inputs": "noise" if order.images is None else "images",
        "judged": order.judged is not None,
        "probabilities": promised.tolist(),
        "evidence": dict(order.evidence),
        "files": {file: sha256_of(target / file) for file in (*files, IMAGES)},
    }
    checks = [_check_hashes(target, facts), _check_answers(promised, answers, facts)]
    _put(target / PAGE, file_page(facts, checks).encode())
    facts["files"][PAGE] = sha256_of(target / PAGE)
    _put(target / CERTIFICATE, json.dumps(facts, indent=1).encode())
    return verify_file(target)


def _put(path: Path, data: bytes) -> None:
    with whole_file(path) as out:
        out.write(data)


def is_file_export(path: str | Path) -> bool:
    """Say whether a folder was written by `export_file`."""
    try:
        return bool(_read(Path(path)).get("format") == FORMAT)
    except UserError:
        return False


def verify_file(path: str | Path) -> Verification:
    """Check hashes and run the file again on the images beside it, in a guarded process.

    Raises UserError for a folder that is no such export.
    """
    folder = Path(path).absolute()
    facts = _read(folder)
    model, expected = _promised(facts)
    checks = [_check_hashes(folder, facts)]
    if checks[0].passed:
        answers = run_guarded(replace(model, path=folder / facts["file"]), folder / IMAGES)
        checks.append(_check_answers(expected, answers, facts))
    return Verification(all(check.passed for check in checks), tuple(checks), model.name)


def _promised(facts: Mapping[str, Any]) -> tuple[ModelFile, Floats]:
    """Return the model that a stranger's certificate describes and the answers it promises; raise UserError
    naming the first field that cannot be read.
    """
    for name, kind in _FIELDS.items():
        if not isinstance(facts.get(name), kind):
            raise UserError(f"the certificate's field {name} is missing or of another kind.", _AGAIN)
    try:
        model = ModelFile.from_json(json.dumps(facts["model"]))
        runtime_version(model.runtime)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(
            f"the certificate's field model describes no model file ({reason(error)}).", _AGAIN
        ) from None
    try:
        expected = np.array(facts["probabilities"], np.float64)
    except (TypeError, ValueError, OverflowError):
        raise UserError("the certificate's field probabilities is not a table of numbers.", _AGAIN) from None
    return model, expected


def script() -> str:
    """Return predict.py: the module's text with what it borrows from the other script written out."""
    borrowed = (bundle_predict.to_rgb, bundle_predict.to_size, bundle_predict.prepare)
    text = inspect.getsource(foreign_predict).replace(
        "from PIL import Image\n", "from PIL import Image, ImageOps\n"
    )
    return text.replace(
        f"\n{_IMPORT}", "\n\n" + "\n\n".join(inspect.getsource(function) for function in borrowed)
    )


def run_guarded(model: ModelFile, images: Path) -> NDArray[np.float64]:
    """Return the file's probabilities (n, K) for the prepared images in a .npy, from a guarded process."""
    arguments = {"model": model.to_json(), "images": str(images.absolute())}
    task = "engine.exports.foreign:answer_in_child"
    with guarded(task, arguments, subject=model.name, limits=limits_for("verify")) as outcome:
        return np.array(outcome.result, np.float64)


def answer_in_child(child: Child, model: str, images: str) -> list[list[float]]:
    """The child's part of `run_guarded`."""
    described = ModelFile.from_json(model)
    stage("running the model")
    prepared = np.load(images, allow_pickle=False).astype(np.float32, copy=False)
    session = FileSession(read_judged(described), described)
    rows = [session.outputs(prepared[i : i + 1]) for i in range(len(prepared))]
    answers: list[list[float]] = file_probabilities(np.concatenate(rows), described).tolist()
    return answers


def _noise(model: ModelFile) -> NDArray[np.float32]:
    shape = (4, *input_shape(model.input.preprocessing))
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def _check_hashes(folder: Path, facts: Mapping[str, Any]) -> Check:
    names = {facts["file"], "predict.py", "README.md", IMAGES, PAGE}
    stated = facts["files"]
    wrong = [name for name in sorted(names) if _hash(folder / name) != stated.get(name)]
    if _hash(folder / facts["file"]) != facts["model"]["sha256"]:
        wrong.append(f"{facts['file']} (not the file that was judged)")
    sentence = (
        f"Changed since the export: {', '.join(wrong)}." if wrong else "Every file has the hash stated."
    )
    return Check(name="files", passed=not wrong, value=None, limit=None, sentence=sentence)


def _hash(path: Path) -> str | None:
    return sha256_of(path) if path.is_file() and not path.is_symlink() else None


def _check_answers(expected: Floats, answers: Floats, facts: Mapping[str, Any]) -> Check:
    here = runtime_version(facts["model"]["runtime"])
    limit = SAME if here == facts["runtime"] else OTHER
    if facts["judged"]:
        limit = max(limit, 2.0**-13)  # predictions may be stored rounded
    same = expected.shape == answers.shape
    largest = float(np.abs(expected - answers).max()) if same else float("inf")
    what = "the judged probabilities" if facts["judged"] else "the answers at the export"
    sentence = (
        f"In {here} it repeats {what} on {len(answers)} {facts['inputs']} to {largest:.2g} (limit"
        f" {limit:.2g})."
    )
    return Check(name="answers", passed=largest <= limit, value=largest, limit=limit, sentence=sentence)


def _read(folder: Path) -> dict[str, Any]:
    path = folder / CERTIFICATE
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_CERTIFICATE:
            raise ValueError
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["file"] not in _NAMES or not isinstance(facts["files"], dict):
            raise ValueError
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise UserError(
            f"{folder.name} holds no certificate of a model file. Give the exported folder."
        ) from None
    return dict(facts)


def _free_folder(folder: str | Path) -> Path:
    target = Path(folder)
    if target.exists() and not target.is_dir():
        raise UserError(f"{str(folder)!r} is a file, and a folder is needed. Give another.")
    if target.is_dir() and any(target.iterdir()) and not is_file_export(target):
        raise UserError(
            f"{str(folder)!r} holds files that no earlier export of a file wrote. Give another folder."
        )
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=target):  # now, not after the work
        return target


def _readme(order: FileOrder, name: str) -> bytes:
    model = order.model
    notes = "\n".join(f"- {note}" for note in model.notes)
    return (
        f"# {name}\n\n{model.format}, {model.n_bytes:,} bytes, sha256 {model.sha256}.\n"
        f"The very bytes that were judged, for {runtime_version(model.runtime)}. What was checked, and why\n"
        f"this file: {PAGE}.\n\n{notes}\n\n"
        "    python predict.py photo.jpg\n    python -m engine verify .\n"
    ).encode()
