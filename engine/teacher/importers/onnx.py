"""Import an ONNX file or message: outside data only from the file's own folder, facts from its metadata.

Knows ONNX files. The normal form, the kernels and the checks are shared with the other importers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from engine.guard import patience_with, stage
from engine.teacher.agreement import Reference
from engine.teacher.graph import PREFIX, Description, build_teacher, model_facts, plain_preprocessing
from engine.teacher.graph_bounds import require_batch, require_bounded
from engine.teacher.metadata import class_names_in, normalisation_in
from engine.teacher.normal_form import input_shape, normalize, value_shape
from engine.teacher.outside_data import load_outside_data
from engine.teacher.request import MAX_BYTES, InputShape
from engine.teacher.runtime import open_session, run
from engine.types import NOT_STATED, Floats, Preprocessing, Teacher, UserError

_UNSTATED = InputShape()
PATIENCE = 0.5  # of an import: nothing is translated


def import_graph(
    model: bytes | str | Path,
    *,
    name: str | None = None,
    shape: InputShape = _UNSTATED,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    max_bytes: int = MAX_BYTES,
) -> Teacher:
    """Import an ONNX classifier from its bytes or its path; a file written by `engine.teacher.graph.save`
    describes itself.

    What is stated here wins over the file's metadata; `shape` is needed where the file leaves it open. Raises
    UserError for a file that is damaged, reaches outside its folder, is too large, or is no image classifier
    with one input and one output.
    """
    path = None if isinstance(model, bytes) else Path(model)
    proto = parse(_content(model, max_bytes), path.name if path else "the model")
    require_bounded(proto)
    load_outside_data(proto, path.parent if path else None, max_bytes)
    stage("reading the graph", patience=PATIENCE * patience_with(proto.ByteSize()), goes_on=True)
    facts = model_facts(proto)
    onnx.helper.set_model_props(
        proto, {item.key: item.value for item in proto.metadata_props if not item.key.startswith(PREFIX)}
    )
    original = open_session(proto.SerializeToString())
    normal = normalize(proto)
    # The comparison asks whether normalising changed anything: nothing to ask if the file was in normal form
    # already.
    reference = (
        None
        if normal == proto
        else _reference(original, _fixed_batch(proto.graph, normal.graph.input[0].name))
    )
    name = name or facts.get("name") or (path.stem if path else "model")
    source = facts.get("source") or (path.name if path else "onnx")
    notes = _stored(facts, "notes") or ()
    if preprocessing is None and "preprocessing" in facts:
        preprocessing = _stored_preprocessing(facts["preprocessing"], shape.size)
    if preprocessing is None:
        assumed = _assumed_preprocessing(normal.graph, shape)
        stated = normalisation_in(model_facts(proto, ""), assumed)
        preprocessing = stated or assumed
        notes = (
            *notes,
            (
                f"The file does not state its preprocessing: {NOT_STATED}."
                if stated is None
                else "Mean and std are those of the file's metadata."
            ),
        )
    description = Description(
        name=name,
        source=source,
        preprocessing=preprocessing,
        class_names=class_names or _stored(facts, "class_names"),
        notes=notes,
    )
    teacher = build_teacher(normal, description, reference)
    return teacher if description.class_names else _named(teacher, class_names_in(model_facts(proto, "")))


def _named(teacher: Teacher, names: tuple[str, ...]) -> Teacher:
    """Return the teacher with the names that another tool left in the file, or a note why not."""
    if not names:
        return teacher
    if len(names) == teacher.n_classes:
        note = "The class names are those of the file's metadata."
        return replace(teacher, class_names=names, notes=(*teacher.notes, note))
    note = (
        f"The file's metadata names {len(names)} classes and the model has {teacher.n_classes} outputs, so"
        " the names cannot fit and were left out: give them by hand."
    )
    return replace(teacher, notes=(note, *teacher.notes))


def _content(model: bytes | str | Path, max_bytes: int) -> bytes:
    size = len(model) if isinstance(model, bytes) else Path(model).stat().st_size
    if size > max_bytes:
        raise UserError(
            f"the ONNX file has {size / 1e9:.2f} GB; a teacher has up to {max_bytes / 1e9:.2f} GB."
        )
    return model if isinstance(model, bytes) else Path(model).read_bytes()


def parse(content: bytes, name: str) -> onnx.ModelProto:
    try:
        model: onnx.ModelProto = onnx.ModelProto.FromString(content)
    except DecodeError as error:
        raise UserError(f"{name} is damaged or no ONNX file. Export or copy it again.") from error
    if not model.graph.node:
        raise UserError(f"{name} holds no ONNX graph. Export or copy it again.")
    return model


def _stored(facts: dict[str, str], key: str) -> tuple[str, ...] | None:
    if key not in facts:
        return None
    try:
        return tuple(str(item) for item in json.loads(facts[key]))
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(
            f"the file's metadata {PREFIX + key} is not a JSON list. Remove it, or save the teacher again."
        ) from error


def _stored_preprocessing(text: str, size: tuple[int, int] | None) -> Preprocessing:
    try:
        stored = Preprocessing.from_json(text)
        if size is None:
            return stored
        return replace(
            stored,
            height=size[0],
            width=size[1],
            resize=None if stored.resize is None else max(stored.resize, *size),
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(
            f"the file's metadata {PREFIX}preprocessing cannot be read ({error}). State the preprocessing"
            " instead."
        ) from error


def _assumed_preprocessing(graph: onnx.GraphProto, stated: InputShape) -> Preprocessing:
    shape = input_shape(graph)
    if len(shape) != 4:
        raise UserError(
            f"the model's input has {len(shape)} axes; a batch of images has 4: (batch, channels, height,"
            " width)."
        )
    looks_last = shape[3] in (1, 3) and shape[1] not in (1, 3)
    layout = stated.layout or ("NHWC" if looks_last else "NCHW")
    channels, height, width = shape[1:] if layout == "NCHW" else (shape[3], shape[1], shape[2])
    height, width = stated.size or (height, width)
    channels = stated.channels or channels
    if height is None or width is None:
        raise UserError("the file leaves the image size open.", "State height and width.", option="size")
    if channels is None:
        raise UserError(
            "the file leaves the number of channels open.", "State 1 (grey) or 3 (RGB).", option="channels"
        )
    return plain_preprocessing(channels, height, width, layout)


def _reference(session: Any, fixed: int | None) -> Reference:
    """The original file's outputs; a file with a fixed batch size is run in blocks of that size."""

    def outputs(images: NDArray[np.float32]) -> Floats:
        if fixed is None:
            return run(session, images)
        blocks = [
            np.resize(images[i : i + fixed], (fixed, *images.shape[1:])) for i in range(0, len(images), fixed)
        ]
        return np.concatenate([run(session, block) for block in blocks])[: len(images)]

    return outputs


def _fixed_batch(graph: onnx.GraphProto, name: str) -> int | None:
    """The batch size the original file insists on; its real input may stand behind stored weights in the
    list.
    """
    value = next(value for value in graph.input if value.name == name)
    size = (value_shape(value) or (None,))[0]
    require_batch(size)
    return size
