"""Copies of a candidate for its own framework: float and packed .safetensors, and .keras; with the loader of
the packed form.

Knows these file formats. A copy never replaces model.onnx, which is the one that was checked.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load_file, save_file

from engine.family.quantize import Quantized, dequantize, pack, unpack
from engine.family.weights import candidate_weights, quantized_weights
from engine.guard import STARTING, Child, guarded, limits_for, patience_with, stage
from engine.types import Kernel, Recipe, Teacher, UserError

PACKED = "anchorpoint packed 1"
_CHECKPOINTS = (".safetensors", ".pth", ".pt")
_KERAS = (".keras", ".h5", ".hdf5")
_NO_LITERT = (
    "A LiteRT (.tflite) copy is not offered: its converter chooses scales and integers of its own, and runs"
    " large layers on quantized activations."
)
_MAX_BYTES = 2 * 1000**3


@dataclass(frozen=True)
class Format:
    """A copy that can be asked for: the file it becomes and what it is."""

    file: str
    sentence: str


FORMATS: dict[str, Format] = {
    "safetensors": Format("model.safetensors", "dequantized float weights under the framework's own names"),
    "packed": Format(
        "packed.safetensors", "bit-packed codes at their true width, with scales and a manifest"
    ),
    "keras": Format("model.keras", "the Keras model with dequantized kernels"),
}


def check_formats(formats: Collection[str], source_path: Path | None) -> None:
    """Raise UserError if a format is unknown, or needs a source file that was not given."""
    unknown = sorted(set(formats) - {"onnx", *FORMATS})
    if unknown:
        raise UserError(f"unknown format {', '.join(unknown)}. Use any of: onnx, {', '.join(FORMATS)}.")
    if "keras" in formats and (source_path is None or source_path.suffix.lower() not in _KERAS):
        raise UserError(
            "a .keras copy needs the Keras file the teacher came from. Give a .keras or .h5 teacher, or leave"
            " the format out."
        )


def native_copies(
    folder: Path, teacher: Teacher, recipe: Recipe, formats: Collection[str], source_path: Path | None
) -> tuple[str, ...]:
    """Write the copies asked for into `folder` and return a sentence about each."""
    notes = []
    if "safetensors" in formats:
        notes.append(_write_float(folder / FORMATS["safetensors"].file, teacher, recipe, source_path))
    if "packed" in formats:
        notes.append(_write_packed(folder / FORMATS["packed"].file, teacher, recipe))
    if "keras" in formats:
        assert source_path is not None
        path = folder / FORMATS["keras"].file
        notes.append(str(_copied(path, candidate_weights(teacher, recipe), source_path)))
    if source_path is not None and source_path.suffix.lower() in _KERAS:
        notes.append(_NO_LITERT)
    return tuple(notes)


def _copied(path: Path, weights: dict[str, NDArray[np.float32]], source_path: Path) -> str | bool:
    """Write a copy that builds on the file the teacher came from: a stranger's, so it is read in a guarded
    child. Return what was written about it.
    """
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "weights.safetensors"
        save_file({name: np.ascontiguousarray(array) for name, array in weights.items()}, stored)
        arguments = {"weights": str(stored), "source": str(source_path.absolute()), "name": path.name}
        task, limits = "engine.exports.native:copy_in_child", limits_for("import")
        with guarded(task, arguments, subject=source_path.name, limits=limits) as outcome:
            said: str | bool = outcome.result
            if said:
                shutil.move(outcome.folder / path.name, path)
            return said


def copy_in_child(child: Child, weights: str, source: str, name: str) -> str | bool:
    """The child's part of a copy."""
    stage("loading its framework", patience=STARTING)
    path, arrays = child.folder / name, load_file(weights)
    if name == FORMATS["keras"].file:
        return _write_keras(path, arrays, Path(source))
    return _write_checkpoint(path, arrays, Path(source))


def _begin(source_path: Path) -> None:
    stage("reading the file the teacher came from", patience=patience_with(source_path.stat().st_size))


# --- float weights under the framework's own names ----------------------------------------


def _write_float(path: Path, teacher: Teacher, recipe: Recipe, source_path: Path | None) -> str:
    weights = candidate_weights(teacher, recipe)
    if (
        source_path is not None
        and source_path.suffix.lower() in _CHECKPOINTS
        and _copied(path, weights, source_path)
    ):
        return (
            f"{path.name} is the complete state dict of {source_path.name} with dequantized kernels: load it"
            " in its place."
        )
    save_file(
        {name: np.ascontiguousarray(array) for name, array in weights.items()},
        path,
        metadata={"recipe": recipe.slug},
    )
    return (
        f"{path.name} holds the {len(weights)} dequantized kernels only: load them over the original weights"
        " (in torch with strict=False)."
    )


def _write_checkpoint(path: Path, weights: dict[str, NDArray[np.float32]], source_path: Path) -> bool:
    """Write the checkpoint with replaced kernels; False if its names are not the teacher's."""
    import torch
    from safetensors.torch import save_file as save_torch

    from engine.teacher.importers.checkpoint import read_weights

    _begin(source_path)
    stored = read_weights(source_path, max_bytes=_MAX_BYTES)
    if any(name not in stored or tuple(stored[name].shape) != array.shape for name, array in weights.items()):
        return False
    # a clone of each: a checkpoint may tie two names to one memory, which safetensors refuses
    merged = {name: value.detach().clone().contiguous() for name, value in stored.items()}
    merged.update((name, torch.from_numpy(array.copy())) for name, array in weights.items())
    save_torch(merged, path)
    return True


def _write_keras(path: Path, weights: dict[str, NDArray[np.float32]], source_path: Path) -> str:
    from engine.teacher.importers.keras_file import read_model

    _begin(source_path)
    model = read_model(source_path, max_bytes=_MAX_BYTES)
    found = 0
    # the importer's naming: a variable's path, with its number among the opened ones where a path occurs
    # twice
    names: set[str] = set()
    for index, variable in enumerate(variable for variable in model.variables if len(variable.shape) >= 2):
        name = variable.path if variable.path not in names else f"{variable.path}#{index}"
        names.add(name)
        if name in weights:
            variable.assign(weights[name])
            found += 1
    if found != len(weights):
        missing = sorted(set(weights) - names)[0]
        raise UserError(
            f"{source_path.name} has no variable {missing!r}, which the teacher has. Give the file the"
            " teacher was loaded from."
        )
    model.save(path)
    return (
        f"{path.name} is {source_path.name} with its {found} kernels dequantized: load it with"
        " keras.saving.load_model."
    )


# --- packed codes -------------------------------------------------------------------------


def _write_packed(path: Path, teacher: Teacher, recipe: Recipe) -> str:
    quantized = quantized_weights(teacher, recipe)
    tensors: dict[str, NDArray[Any]] = {}
    for tensor in onnx.ModelProto.FromString(teacher.graph).graph.initializer:
        if tensor.name not in quantized and tensor.data_type == TensorProto.FLOAT:
            tensors[tensor.name] = np.ascontiguousarray(numpy_helper.to_array(tensor))
    for name, item in quantized.items():
        tensors[f"{name}.codes"] = pack(item.codes, item.bits)
        tensors[f"{name}.scales"] = item.scales
    manifest = {
        "format": PACKED,
        "recipe": recipe.slug,
        "teacher": teacher.fingerprint,
        "kernels": {name: _entry(item) for name, item in quantized.items()},
    }
    # one key: safetensors does not promise an order of several
    save_file(tensors, path, metadata={"manifest": json.dumps(manifest, sort_keys=True)})
    return (
        f"{path.name} holds codes at {recipe.bits} bits each; engine.exports.native.load_packed turns it into"
        " float arrays by name."
    )


def _entry(item: Quantized) -> dict[str, Any]:
    kernel = item.kernel
    return {
        "shape": list(kernel.shape),
        "bits": item.bits,
        "axes": list(kernel.axes),
        "op": kernel.op,
        "groups": kernel.groups,
    }


def load_packed(path: str | Path) -> dict[str, NDArray[np.float32]]:
    """Return every float array of a packed .safetensors file by name, kernels dequantized to weight = code *
    scale.

    A kernel NAME is stored as NAME.codes (uint8: two's complement codes of `bits` bits, lowest bits first, in
    C order of `shape`) and NAME.scales (float32: one for the tensor, or one per output channel, which `axes`
    of `shape` index). The manifest is JSON in the file's metadata. Raises UserError if the file is damaged or
    of another kind.
    """
    path = Path(path)
    try:
        with safe_open(path, framework="numpy") as file:
            manifest = json.loads((file.metadata() or {})["manifest"])
            if manifest["format"] != PACKED:
                raise UserError(
                    f"{path.name} is not of the kind {PACKED!r}. Export it again with this version."
                )
            # The handle is no dict.
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        kernels = {name: _unpacked(arrays, name, entry) for name, entry in manifest["kernels"].items()}
    except FileNotFoundError as error:
        raise UserError(f"there is no file {str(path)!r}. Check the path.") from error
    except (SafetensorError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UserError(f"{path.name} is damaged, or not a packed candidate. Export it again.") from error
    return {**arrays, **kernels}


def _unpacked(arrays: dict[str, NDArray[Any]], name: str, entry: dict[str, Any]) -> NDArray[np.float32]:
    """Take a kernel's codes and scales out of `arrays` and return its weights."""
    kernel = Kernel(
        name=name,
        shape=tuple(entry["shape"]),
        axes=tuple(entry["axes"]),
        op=entry["op"],
        groups=entry["groups"],
    )
    codes = unpack(arrays.pop(f"{name}.codes"), entry["bits"], kernel.size).reshape(kernel.shape)
    return dequantize(
        Quantized(codes=codes, scales=arrays.pop(f"{name}.scales"), bits=entry["bits"], kernel=kernel)
    )
