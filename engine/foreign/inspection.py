"""The child's part of looking into model files: open each one, run it on random images, say what it is.

Knows how a file becomes a description, or a reason why not. Runs inside a guarded process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.family.model_file import InputForm, ModelFile, OutputForm, OutputKind
from engine.files.hashing import sha256_of
from engine.files.whole_file import whole_file
from engine.foreign import litert_file, onnx_file
from engine.foreign.fitting import fit, range_note, read_sidecar, taken_by
from engine.foreign.found import IMPORTED, Found
from engine.foreign.onnx_file import Insides, Port
from engine.foreign.session import FileSession
from engine.guard import Child, patience_with, progress, stage
from engine.teacher.agreement import random_images
from engine.types import Preprocessing, UserError

_N_IMAGES = 4
_DTYPES = ("float32", "float16", "float64", "uint8", "int8", "uint16", "int16", "int32", "int64")
NOT_REPEATABLE = (
    "it answers the same images differently when it is run twice; judging needs one answer. Export it for"
    " inference, without random operators."
)
_ROUNDING = 1e-3  # of the sum of a row of float probabilities


def inspect_in_child(
    child: Child,
    files: Sequence[Mapping[str, Any]],
    preprocessing: str | None,
    output: str | None,
    place: str,
) -> None:
    """Leave in `place`, for each file (name, path, source, sidecar), what it is or why it is refused."""
    base = None if preprocessing is None else Preprocessing.from_json(preprocessing)
    for index, file in enumerate(files):
        stage("reading the file", patience=_patience(file))
        progress(index, len(files))
        try:
            answer = {"model": _describe(file, base, output).to_json()}
        except UserError as error:
            answer = {"refused": str(error)}
        with whole_file(_answer_path(Path(place), index)) as written:
            written.write(json.dumps(answer).encode())


def _patience(file: Mapping[str, Any]) -> float:
    """Nothing is translated here: a third of the time of an import is plenty."""
    return patience_with(Path(file["path"]).stat().st_size) / 3


def _answer_path(place: Path, index: int) -> Path:
    return place / f"{index}.json"


def _describe(file: Mapping[str, Any], base: Preprocessing | None, output: str | None) -> ModelFile:
    path = Path(file["path"])
    content = path.read_bytes()
    is_onnx = path.suffix.lower() == ".onnx"
    insides = onnx_file.look_into(content) if is_onnx else litert_file.look_into(content)
    stated = {**insides.stated, **({} if file["sidecar"] is None else read_sidecar(Path(file["sidecar"])))}
    taken, notes = _input(insides, base, stated)
    port = _choose(insides.given, output, stated.get("output_name"))
    model = ModelFile(
        name=file["name"],
        path=path,
        sha256=sha256_of(path),
        n_bytes=len(content),
        runtime="onnxruntime" if is_onnx else "litert",
        input=taken,
        output=_output(port, "logits", 0),
        format=insides.format,
        source=file["source"],
    )
    stage("running the model", patience=_patience(file), goes_on=True)
    outputs = _answers(content, model)
    kind, said = _kind(outputs, port, stated.get("output"))
    if Path(file["source"]).suffix.lower() in IMPORTED:
        notes = (*notes, "It went through an importer: the ONNX file made from it is judged, and ships.")
    return replace(model, output=_output(port, kind, outputs.shape[1]), notes=(*notes, said))


def _input(
    insides: Insides, base: Preprocessing | None, stated: Mapping[str, Any]
) -> tuple[InputForm, tuple[str, ...]]:
    port = insides.taken
    if port.dtype not in _DTYPES:
        raise UserError(f"it takes {port.dtype}; images are given as {', '.join(_DTYPES[:5])}.")
    fitted, notes = fit(base, taken_by(port.shape), stated)
    fixed = port.shape[0]
    form = InputForm(
        name=port.name,
        preprocessing=fitted,
        dtype=port.dtype,
        batch=fixed or (1 if insides.alone else None),
    )
    if port.quantized is not None:
        form = replace(form, scale=port.quantized.scale, zero_point=port.quantized.zero_point)
    elif np.dtype(port.dtype).kind in "iu" and not {"scale", "mean", "std"} & set(stated):
        n = fitted.channels
        form = replace(form, preprocessing=replace(fitted, scale=1.0, mean=(0.0,) * n, std=(1.0,) * n))
        notes = (*notes, "It takes whole numbers and states no scale: pixels 0..255 go in as they are.")
    warning = range_note(form) if port.quantized is not None else None
    if insides.alone and fixed is None:
        notes = (*notes, insides.alone)
    return form, (*notes, warning) if warning else notes


def _choose(ports: Sequence[Port], wanted: str | None, stated: str | None) -> Port:
    """Return the output with the classes: what its owner states, else what is `wanted` of files with
    several.
    """
    listed = ", ".join(repr(port.name) for port in ports)
    chosen = next((port for port in ports if port.name == (stated or wanted)), None)
    if stated is not None and chosen is None:
        raise UserError(f"its description states output_name {stated!r}; it has {listed}. Correct it.")
    if len(ports) == 1:
        return ports[0]
    if chosen is None:
        raise UserError(
            f"it has {len(ports)} outputs ({listed}). Say which holds the classes, here or as output_name in"
            " its .json.",
            option="output",
        )
    return chosen


def _output(port: Port, kind: OutputKind, n_classes: int) -> OutputForm:
    form = OutputForm(name=port.name, kind=kind, n_classes=n_classes, dtype=port.dtype)
    if np.dtype(port.dtype).kind == "f":
        return form
    if port.quantized is None:
        raise UserError(
            f"it returns whole numbers ({port.dtype}) without a scale, so they cannot be read as class"
            " scores. Export it with a float output."
        )
    return replace(form, scale=port.quantized.scale, zero_point=port.quantized.zero_point)


def _answers(content: bytes, model: ModelFile) -> NDArray[np.float64]:
    """Return its outputs (n, K) on random images; raise UserError if they are no class scores."""
    images = random_images(_N_IMAGES, model.input.preprocessing, seed=0)
    session = FileSession(content, model)
    raw = session.outputs(images)
    if raw.tobytes() != session.outputs(images).tobytes():
        raise UserError(NOT_REPEATABLE)
    outputs = np.asarray(raw, np.float64).reshape(len(raw), -1)
    if outputs.shape[1] < 2 or sum(size > 1 for size in raw.shape[1:]) != 1:
        raise UserError(
            f"it returns shape {tuple(raw.shape[1:])} for an image; a classifier returns one row of at least"
            " 2 class scores."
        )
    return outputs


def _kind(outputs: NDArray[np.float64], port: Port, stated: str | None) -> tuple[OutputKind, str]:
    if stated is not None:
        return (
            "logits" if stated == "logits" else "probabilities"
        ), f"Its outputs are stated to be {stated}."
    if port.after_softmax and (outputs >= 0).all():
        return "probabilities", "It ends in a softmax; its outputs are used as probabilities."
    if (outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1, atol=_ROUNDING):
        return "probabilities", "Its outputs sum to one; they are used as probabilities."
    if (outputs >= 0).all() and outputs.max() <= 1:
        return (
            "logits",
            "Its outputs lie between 0 and 1 without summing to one: a softmax is applied to them.",
        )
    return "logits", "It returns logits; a softmax is applied to them."


def as_json(file: Found) -> dict[str, Any]:
    """Return a found file as plain data for the child."""
    return {
        "name": file.name,
        "path": str(file.path),
        "source": file.source,
        "sidecar": None if file.sidecar is None else str(file.sidecar),
    }


def read_answers(place: Path) -> list[ModelFile | str]:
    """Return what a child left: a description or the reason of a refusal for each file up to its end."""
    found: list[ModelFile | str] = []
    while (path := _answer_path(place, len(found))).is_file():
        answer = json.loads(path.read_text(encoding="utf-8"))
        found.append(str(answer["refused"]) if "refused" in answer else ModelFile.from_json(answer["model"]))
    return found
