"""Write a candidate as plain ONNX: the teacher's graph with packed integer initializers behind
DequantizeLinear.

Knows ONNX and the quantizer's codes. Knows nothing of runtimes, files or certificates.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, version_converter

from engine import __version__
from engine.family.cost import stored_bits
from engine.family.quantize import Quantized, channel_rows, pack
from engine.family.weights import check_family, quantized_weights
from engine.teacher.graph import PREFIX
from engine.types import Kernel, Recipe, Teacher, UserError

OPSET_INT4 = 21  # the first opset whose DequantizeLinear takes 4-bit integers, IR version 10
OPSET_INT2 = 25  # the first whose DequantizeLinear takes 2-bit integers, IR version 13
SHAPE_PREFIX = "shape:"  # names of the constants that bring codes back to a kernel's shape
_IR_VERSIONS = {21: 10, 22: 10, 23: 11, 24: 12, 25: 13}
_TYPES = {8: TensorProto.INT8, 4: TensorProto.INT4, 2: TensorProto.INT2}


@dataclass(frozen=True, eq=False)
class PackedModel:
    """A candidate's file: its bytes, the opset it needs, the width of its integer containers, and what
    deserves a word.
    """

    content: bytes
    opset: int
    container_bits: int
    notes: tuple[str, ...] = ()


def container_bits(bits: int, max_opset: int = OPSET_INT2) -> int:
    """Return the width of the ONNX integer that holds codes of `bits`: 2, 4 or 8. INT2 exists from opset 25
    on.
    """
    width = stored_bits(bits)
    return 4 if width == 2 and max_opset < OPSET_INT2 else width


def pack_model(teacher: Teacher, recipe: Recipe, *, max_opset: int = OPSET_INT2) -> PackedModel:
    """Return the candidate as ONNX bytes: the same bytes for the same teacher, recipe and opset.

    Each quantized kernel becomes integers -> DequantizeLinear -> Reshape (-> Transpose) under the kernel's
    old name. Raises UserError if the recipe does not suit the teacher, or the graph cannot be expressed at
    the opset it needs.
    """
    if max_opset < OPSET_INT4:
        raise UserError(
            f"the highest opset allowed is {max_opset}; packed integers need opset {OPSET_INT4} or newer.",
            f"Give {OPSET_INT4} or {OPSET_INT2}.",
            option="max_opset",
        )
    check_family(teacher, [recipe])
    width = container_bits(recipe.bits, max_opset)
    model = pack_kernels(teacher, quantized_weights(teacher, recipe), recipe.slug, max_opset=max_opset)
    notes: tuple[str, ...] = ()
    if width > recipe.bits:
        wish = (
            " (opset 25 has 2-bit integers; it was ruled out by the highest opset asked for)"
            if recipe.bits == 2
            else ""
        )
        notes = (
            (
                f"ONNX has no {recipe.bits}-bit integer here, so codes of {recipe.bits} bits are stored as"
                f" INT{width}{wish}."
            ),
        )
    return PackedModel(
        content=model.SerializeToString(deterministic=True),
        opset=_opset(model),
        container_bits=width,
        notes=notes,
    )


def pack_kernels(
    teacher: Teacher, quantized: Mapping[str, Quantized], slug: str, *, max_opset: int = OPSET_INT2
) -> onnx.ModelProto:
    """Return the teacher's graph with these kernels as packed integers, each in the container its own bits
    need, described and checked.
    """
    widths = {name: container_bits(item.bits, max_opset) for name, item in quantized.items()}
    needed = OPSET_INT2 if 2 in widths.values() else OPSET_INT4
    model = _at_opset(onnx.ModelProto.FromString(teacher.graph), needed, max_opset)
    _replace_kernels(model.graph, quantized, widths)
    return finished(model, teacher, slug)


def finished(model: onnx.ModelProto, teacher: Teacher, slug: str) -> onnx.ModelProto:
    """Let a candidate's graph say what it is, and refuse one that is no valid ONNX. Changes `model`."""
    _strip(model)
    _describe(model, teacher, slug)
    _check(model)
    return model


# --- opset --------------------------------------------------------------------------------


def _opset(model: onnx.ModelProto) -> int:
    return next((int(item.version) for item in model.opset_import if item.domain in ("", "ai.onnx")), 1)


def _at_opset(model: onnx.ModelProto, needed: int, max_opset: int) -> onnx.ModelProto:
    """Return the model at the needed opset, or at its own if that is newer; refuse what cannot be
    converted.
    """
    version = _opset(model)
    target = max(version, needed)
    if target > max_opset:
        raise UserError(
            f"the teacher's graph uses opset {version}; the highest allowed is {max_opset}.",
            f"Raise the highest opset to {version}.",
            option="max_opset",
        )
    if target > version:
        try:
            model = version_converter.convert_version(model, target)
        except (RuntimeError, version_converter.ConvertError) as error:
            raise UserError(
                f"the teacher's graph uses opset {version} and cannot be converted to {target}"
                f" ({str(error).strip().splitlines()[0][:200]}).",
                f"Export the teacher with opset {target}, or allow opset {OPSET_INT4} at most.",
                option="max_opset",
            ) from error
    model.ir_version = max(int(model.ir_version), _IR_VERSIONS.get(target, _IR_VERSIONS[OPSET_INT2]))
    return model


def _strip(model: onnx.ModelProto) -> None:
    """Drop what does not change a prediction: exporters leave stack traces with the paths of the machine they
    ran on.
    """
    del model.graph.value_info[:]
    model.doc_string = model.graph.doc_string = ""
    for item in (
        model.graph,
        *model.graph.node,
        *model.graph.initializer,
        *model.graph.input,
        *model.graph.output,
    ):
        item.doc_string = ""
        del item.metadata_props[:]
    for tensor in model.graph.initializer:
        # protobuf keeps small arrays as lists of numbers, some of them wider than the numbers are; raw bytes
        # are exact in size
        if not tensor.HasField("raw_data") and tensor.data_type != TensorProto.STRING:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor), tensor.name))


# --- kernels ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Stored:
    """How one kernel lies in the file: the codes' shape, the axis its scales run along, and the way back to
    the kernel.
    """

    codes: NDArray[np.int8]
    axis: int | None  # None: one scale for the whole tensor
    shape: tuple[int, ...]  # what the codes are reshaped to
    perm: tuple[int, ...] | None  # and then transposed by
    split: tuple[int, ...] | None = None  # a last reshape, for a grouped ConvTranspose


def _layout(quantized: Quantized) -> _Stored:
    """Choose a stored shape that differs from the kernel's, so that the Reshape never is a no-op a runtime
    could remove.

    onnxruntime turns DequantizeLinear directly before MatMul into an operator that also quantizes
    activations: a different model from the one that was judged. The Reshape in between keeps it from doing
    so.
    """
    kernel, codes = quantized.kernel, quantized.codes
    if len(quantized.scales) == 1:
        return _Stored(codes=codes.reshape(-1), axis=None, shape=kernel.shape, perm=None)
    if len(kernel.axes) == 1 and not _is_grouped_transpose(kernel):
        return _Stored(codes=codes[None], axis=kernel.axes[0] + 1, shape=kernel.shape, perm=None)
    rows = channel_rows(codes, kernel)
    if _is_grouped_transpose(kernel):
        inputs, outputs, *window = kernel.shape
        moved = (kernel.groups, outputs, inputs // kernel.groups, *window)
        return _Stored(
            codes=rows, axis=0, shape=moved, perm=(0, 2, 1, *range(3, len(moved))), split=kernel.shape
        )
    order = (*kernel.axes, *(axis for axis in range(len(kernel.shape)) if axis not in kernel.axes))
    return _Stored(
        codes=rows,
        axis=0,
        shape=tuple(kernel.shape[axis] for axis in order),
        perm=tuple(int(axis) for axis in np.argsort(order)),
    )


def _is_grouped_transpose(kernel: Kernel) -> bool:
    return kernel.op == "ConvTranspose" and kernel.groups > 1


def _replace_kernels(
    graph: onnx.GraphProto, quantized: Mapping[str, Quantized], widths: Mapping[str, int]
) -> None:
    """Swap each kernel's initializer for integers and the nodes that turn them back, in the place the old one
    had.
    """
    initializers: dict[str, onnx.TensorProto] = {}
    nodes = []
    for tensor in graph.initializer:
        if tensor.name in quantized:
            added, chain = _packed_kernel(tensor.name, quantized[tensor.name], widths[tensor.name])
            # kernels of one shape share the constant that says so
            initializers.update((item.name, item) for item in added)
            nodes.extend(chain)
        else:
            initializers[tensor.name] = tensor
    nodes.extend(graph.node)
    del graph.initializer[:], graph.node[:]
    graph.initializer.extend(initializers.values())
    graph.node.extend(nodes)


def _packed_kernel(
    name: str, quantized: Quantized, width: int
) -> tuple[list[onnx.TensorProto], list[onnx.NodeProto]]:
    stored = _layout(quantized)
    scales = quantized.scales.reshape(() if stored.axis is None else (-1,))
    part = {key: f"{name}:{key}" for key in ("codes", "scale", "zero", "float", "moved", "turned")}
    shape = _shape(stored.shape)
    initializers = [
        _integers(part["codes"], stored.codes, width),
        numpy_helper.from_array(scales, part["scale"]),
        _integers(part["zero"], np.zeros(scales.shape, np.int8), width),
        shape,
    ]
    axis: dict[str, Any] = {} if stored.axis is None else {"axis": stored.axis}
    nodes = [
        helper.make_node(
            "DequantizeLinear",
            [part["codes"], part["scale"], part["zero"]],
            [part["float"]],
            part["float"],
            **axis,
        ),
        helper.make_node("Reshape", [part["float"], shape.name], [part["moved"]], part["moved"]),
    ]
    if stored.perm is not None:
        nodes.append(
            helper.make_node("Transpose", [part["moved"]], [part["turned"]], part["turned"], perm=stored.perm)
        )
    if stored.split is not None:
        initializers.append(_shape(stored.split))
        nodes.append(
            helper.make_node("Reshape", [part["turned"], initializers[-1].name], [name], f"{name}:kernel")
        )
    nodes[-1].output[0] = name
    return initializers, nodes


def _shape(shape: tuple[int, ...]) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(shape, np.int64), f"{SHAPE_PREFIX}{'x'.join(map(str, shape))}")


def _integers(name: str, codes: NDArray[np.int8], width: int) -> onnx.TensorProto:
    # make_tensor writes INT8 and INT4 numbers as int32, four to eight times the bytes; raw packed bytes are
    # what is meant
    content = pack(codes, width).tobytes()
    return helper.make_tensor(name, _TYPES[width], codes.shape, content, raw=True)


# --- the file as a whole ------------------------------------------------------------------


def _describe(model: onnx.ModelProto, teacher: Teacher, slug: str) -> None:
    facts = {
        "name": teacher.name,
        "source": teacher.source,
        "preprocessing": teacher.preprocessing.to_json(),
        "class_names": json.dumps(teacher.class_names),
        "output": teacher.output,
        "recipe": slug,
        "teacher": teacher.fingerprint,
    }
    helper.set_model_props(model, {PREFIX + key: value for key, value in facts.items()})
    model.producer_name, model.producer_version = "anchorpoint", __version__


def float_model(teacher: Teacher) -> bytes:
    """Return the teacher as a file of its own, without the notes exporters leave: what a candidate's size is
    measured against.
    """
    model = onnx.ModelProto.FromString(teacher.graph)
    _strip(model)
    content: bytes = model.SerializeToString(deterministic=True)
    return content


def _check(model: onnx.ModelProto) -> None:
    """Refuse to write what is no valid ONNX: operators outside the standard, or shapes that do not fit."""
    foreign = sorted({item.domain for item in model.opset_import if item.domain not in ("", "ai.onnx")})
    used = sorted({node.domain for node in model.graph.node if node.domain not in ("", "ai.onnx")})
    if used:
        raise UserError(
            f"the teacher's graph uses operators of {', '.join(used)}, which not every runtime has. Export it"
            " with plain ONNX."
        )
    kept = [item for item in model.opset_import if item.domain not in foreign]
    del model.opset_import[:]
    model.opset_import.extend(kept)
    try:
        onnx.checker.check_model(model, full_check=True)
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[0][:300]
        raise UserError(
            f"the packed graph is not valid ONNX: {reason}. Export the teacher again with fewer custom parts."
        ) from error
