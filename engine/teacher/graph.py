"""Turn an ONNX model into a Teacher, and store a Teacher as one .onnx file that says everything about itself.

Knows the metadata keys. Knows nothing of the frameworks the model came from.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
from onnx import numpy_helper

from engine.files.whole_file import whole_file
from engine.teacher.agreement import Reference, examine
from engine.teacher.kernels import find_constant_kernels, find_kernels
from engine.teacher.normal_form import EFFECTIVE, input_shape, normalize, weight_bytes
from engine.types import Kernel, Preprocessing, Teacher, UserError

PREFIX = "anchorpoint."


@dataclass(frozen=True)
class Description:
    """What is known about a model beside its graph."""

    name: str
    source: str
    preprocessing: Preprocessing
    class_names: Sequence[str] | None = None
    notes: tuple[str, ...] = ()


def build_teacher(model: onnx.ModelProto, description: Description, reference: Reference | None) -> Teacher:
    """Bring `model` to normal form, check it against `reference` on random images and describe it as a
    Teacher.

    `reference` maps preprocessed images (n, ...) to the source framework's outputs (n, K); None if there is
    none. Raises UserError for a model that is no image classifier, has no kernels, or changed on the way.
    """
    model = normalize(model)
    _require_matching_input(model.graph, description.preprocessing)
    verdict = examine(model, description.preprocessing, reference)
    kernels = find_kernels(model.graph)
    if not kernels:
        raise UserError(
            "the model has no convolution or dense kernel stored as float32 weights, so there is nothing to"
            " quantize."
        )
    return Teacher(
        name=description.name,
        source=description.source,
        graph=model.SerializeToString(deterministic=True),
        kernels=kernels,
        weights=stored_weights(model.graph, kernels),
        preprocessing=description.preprocessing,
        class_names=_class_names(description.class_names, verdict.n_classes),
        output=verdict.output,
        float_bytes=weight_bytes(model.graph),
        notes=_notes(model.graph, description.notes, verdict.notes),
    )


def restate(
    teacher: Teacher, *, preprocessing: Preprocessing | None = None, class_names: Sequence[str] | None = None
) -> Teacher:
    """The same teacher with other preprocessing or class names, as a user corrects them.

    Raises UserError if they do not fit the graph's input or its number of outputs.
    """
    if preprocessing is not None:
        _require_matching_input(onnx.ModelProto.FromString(teacher.graph).graph, preprocessing)
        teacher = replace(teacher, preprocessing=preprocessing)
    if class_names is not None:
        teacher = replace(teacher, class_names=_class_names(class_names, teacher.n_classes))
    return teacher


def save(teacher: Teacher, path: str | Path) -> None:
    """Write `teacher` to one .onnx file; `engine.teacher.importers.onnx.import_graph` reads it back with the
    same fingerprint.
    """
    model = onnx.ModelProto.FromString(teacher.graph)
    facts = {
        "name": teacher.name,
        "source": teacher.source,
        "preprocessing": teacher.preprocessing.to_json(),
        "class_names": json.dumps(teacher.class_names),
        "output": teacher.output,
        "notes": json.dumps(teacher.notes),
    }
    onnx.helper.set_model_props(
        model, {**model_facts(model, ""), **{PREFIX + key: value for key, value in facts.items()}}
    )
    with whole_file(path) as file:
        file.write(model.SerializeToString(deterministic=True))


def plain_preprocessing(
    channels: int, height: int, width: int, layout: Literal["NCHW", "NHWC"] = "NCHW"
) -> Preprocessing:
    """Pixels scaled to 0..1, image squashed to the input size: what is assumed when nothing is stated."""
    if channels not in (1, 3):
        raise UserError(
            f"the model takes {channels} channels; images have 1 (grey) or 3 (RGB). Use a model with such an"
            " input."
        )
    return Preprocessing(
        height,
        width,
        channels=1 if channels == 1 else 3,
        layout=layout,
        mean=(0.0,) * channels,
        std=(1.0,) * channels,
    )


def model_facts(model: onnx.ModelProto, prefix: str = PREFIX) -> dict[str, str]:
    """The model's metadata whose key starts with `prefix`, the prefix removed."""
    return {
        item.key.removeprefix(prefix): item.value
        for item in model.metadata_props
        if item.key.startswith(prefix)
    }


def _require_matching_input(graph: onnx.GraphProto, preprocessing: Preprocessing) -> None:
    wanted: tuple[int, ...] = (preprocessing.height, preprocessing.width)
    wanted = (
        (preprocessing.channels, *wanted)
        if preprocessing.layout == "NCHW"
        else (*wanted, preprocessing.channels)
    )
    shape = input_shape(graph)
    if graph.input[0].type.tensor_type.elem_type != onnx.TensorProto.FLOAT:
        raise UserError("the model's input is not float32. Export it to take float32 images.")
    if len(shape) != 4 or any(size not in (None, want) for size, want in zip(shape[1:], wanted, strict=True)):
        stated = "x".join("any" if size is None else str(size) for size in shape[1:])
        raise UserError(
            f"the model takes {stated} but the preprocessing makes {'x'.join(map(str, wanted))}"
            f" ({preprocessing.layout}).",
            "State the size, channels and layout the model was trained with.",
            option=("size", "channels", "layout"),
        )


def stored_weights(
    graph: onnx.GraphProto, kernels: Sequence[Kernel]
) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    stored = {tensor.name: tensor for tensor in graph.initializer}
    weights = {}
    for kernel in kernels:
        array = np.array(numpy_helper.to_array(stored[kernel.name]), np.float32)
        array.flags.writeable = False  # a candidate must never be written into its teacher
        weights[kernel.name] = array
    return weights


def _class_names(names: Sequence[str] | None, n_classes: int) -> tuple[str, ...]:
    if names is None:
        return tuple(str(index) for index in range(n_classes))
    if len(names) != n_classes:
        raise UserError(
            f"{len(names)} class names were given but the model has {n_classes} outputs. Give one name per"
            " output, in order."
        )
    repeated = next((name for name, count in Counter(names).items() if count > 1), None)
    if repeated is not None:
        raise UserError(
            f"the class name {repeated[:80]!r} occurs more than once.", "Give every class a name of its own."
        )
    return tuple(names)


def batch_norm_note(count: int) -> str:
    """The sentence that says BatchNorm was left alone."""
    layers = "One BatchNorm layer is" if count == 1 else f"{count} BatchNorm layers are"
    return f"{layers} kept apart from the kernels, so the raw kernels are quantized."


def _notes(graph: onnx.GraphProto, stated: tuple[str, ...], found: tuple[str, ...]) -> tuple[str, ...]:
    notes = [*stated, *found]
    if count := sum(node.op_type == "BatchNormalization" for node in graph.node):
        notes.append(batch_norm_note(count))
    if any(EFFECTIVE in tensor.name for tensor in graph.initializer):
        notes.append(
            f"Kernels named *{EFFECTIVE} are computed by the model from other weights; their final values are"
            " quantized."
        )
    if names := find_constant_kernels(graph):
        notes.append(_constant_note(names))
    return tuple(dict.fromkeys(notes))  # a stored teacher states them already


def _constant_note(names: Sequence[str]) -> str:
    """The sentence that says which weights are not quantized because they never meet an image."""
    alike = list(dict.fromkeys(re.sub(r"\d+(?=[./])", "*", name) for name in names))
    shown = ", ".join(alike[:3]) + (f" and {len(alike) - 3} more" if len(alike) > 3 else "")
    one = len(names) == 1
    return (
        f"{'One kernel is' if one else f'{len(names)} kernels are'} not quantized: the model multiplies"
        f" {'it' if one else 'them'} with constants only, never with an image, so"
        f" {'its' if one else 'their'} result is a constant too ({shown})."
    )
