"""Open a `.keras` or `.h5` file: look through its contents for anything that could run code or reach other
files, then load it.

Knows the two file formats. Keras itself also loads in safe mode; this module refuses earlier and names the
layer at fault.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.guard import is_limited

# TensorFlow reads it while it is imported, and is loud otherwise
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if is_limited():  # in a child of ours, Keras need not load what it draws pictures with
    sys.modules.setdefault("matplotlib", None)  # type: ignore[arg-type]

import h5py  # type: ignore[import-untyped]
import keras

from engine.files.zips import file_entries, is_bomb
from engine.teacher.importers.keras_sizes import check_sizes
from engine.teacher.reason import reason
from engine.types import UserError

# Layers that hold Python code, or that load another program when they are built.
_CODE = ("Lambda", "__lambda__", "TFSMLayer", "TorchModuleWrapper", "JaxLayer", "FlaxLayer")
# Layers that read a vocabulary from a file of this machine, and have no business in an image classifier.
_READERS = ("StringLookup", "IntegerLookup", "TextVectorization")
_ENTRIES = ("config.json", "metadata.json", "model.weights.h5")
_MAX_CONFIG_BYTES = 64 * 1000**2
_MAX_OBJECTS = 200_000
_INSTEAD = "Build the model from standard Keras layers, or export it to ONNX and load that."
# What Keras raises for a configuration it cannot rebuild.
_FAILURES = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OSError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
)


def read_model(path: Path, *, max_bytes: int) -> keras.Model:
    """Load a Keras model from a `.keras` or `.h5` file of at most `max_bytes` when unpacked.

    Raises UserError naming the layer if the file carries code or custom objects, and for damaged or oversized
    files.
    """
    if path.suffix.lower() == ".keras":
        _inspect_archive(path, max_bytes)
    else:
        _inspect_hdf5(path, path.name, max_bytes, whole_model=True)
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except _FAILURES as error:
        raise UserError(f"Keras cannot load {path.name}: {reason(error)}. {_INSTEAD}") from error


def _inspect_archive(path: Path, max_bytes: int) -> None:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in file_entries(archive)}
            unknown = sorted(set(entries) - set(_ENTRIES))
            if unknown or "config.json" not in entries:
                raise UserError(
                    f"{path.name} is not a plain .keras file (unexpected:"
                    f" {', '.join(unknown[:3]) or 'no config.json'}). {_INSTEAD}"
                )
            if (
                is_bomb(entries.values())
                or sum(entry.file_size for entry in entries.values()) > max_bytes
                or entries["config.json"].file_size > _MAX_CONFIG_BYTES
            ):
                raise UserError(
                    f"{path.name} unpacks to more than the {max_bytes / 1e9:.2f} GB allowed for a teacher, or"
                    " to 200 times its size."
                )
            config = _parse(archive.read("config.json"), path.name)
            _inspect_config(config)
            n_weights = 0
            if "model.weights.h5" in entries:
                weights = io.BytesIO(archive.read("model.weights.h5"))
                n_weights = _inspect_hdf5(weights, path.name, max_bytes, whole_model=False)
            check_sizes(config, n_weights)
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        ValueError,
        NotImplementedError,
        RuntimeError,
    ) as error:
        raise UserError(f"{path.name} is damaged or no .keras file. Save or copy it again.") from error


def _parse(text: str | bytes, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(
            f"the model configuration in {name} is damaged ({error}). Save the model again."
        ) from error


def _inspect_config(config: Any, layer: str = "the model") -> None:
    """Walk a configuration and refuse code and objects that are not Keras' own."""
    if isinstance(config, list):
        for item in config:
            _inspect_config(item, layer)
    if not isinstance(config, dict):
        return
    kind = str(config.get("class_name", ""))
    inner = config.get("config")
    if isinstance(inner, dict) and isinstance(inner.get("name"), str):
        layer = f"the layer {inner['name']!r} ({kind})"
    if kind in _CODE:
        raise UserError(f"{layer} carries code of its own, which is never run here. {_INSTEAD}")
    if kind in _READERS:
        raise UserError(f"{layer} looks words up, which no classifier of images does. {_INSTEAD}")
    if kind and "module" in config and not _is_keras(config["module"]):
        raise UserError(
            f"{layer} uses {kind} from {config['module'] or 'custom code'}, which is not part of Keras."
            f" {_INSTEAD}"
        )
    for item in config.values():
        _inspect_config(item, layer)


def _is_keras(module: Any) -> bool:
    return isinstance(module, str) and (module == "builtins" or module.split(".")[0] == "keras")


def _inspect_hdf5(file: Path | io.BytesIO, name: str, max_bytes: int, *, whole_model: bool) -> int:
    """Refuse what reaches out or is too large; return how many numbers the file holds."""
    try:
        with h5py.File(file, "r") as content:
            datasets = list(_datasets(content, name))
            declared = sum(_stored_bytes(dataset, name) for dataset in datasets)
            n_weights = sum(int(dataset.size or 0) for dataset in datasets)
            if declared > max_bytes:
                raise UserError(
                    f"{name} declares {declared / 1e9:.2f} GB of weights; a teacher has up to"
                    f" {max_bytes / 1e9:.2f} GB."
                )
            if whole_model:
                if "model_config" not in content.attrs:
                    raise UserError(
                        f"{name} holds weights without the model. Save the whole model:"
                        " model.save('model.keras')."
                    )
                config = _parse(content.attrs["model_config"], name)
                _inspect_config(config)
                check_sizes(config, n_weights)
            return n_weights
    except (
        OSError,
        KeyError,
        RuntimeError,
        ValueError,
        TypeError,
    ) as error:  # h5py names no error of its own for a damaged file
        raise UserError(f"{name} is damaged or no HDF5 file. Save or copy it again.") from error


def _datasets(content: h5py.File, name: str) -> Iterator[h5py.Dataset]:
    """Every dataset, refusing links: an external link would read another file of this machine."""
    groups, seen = [content], 0
    while groups:
        group = groups.pop()
        for key in group:
            seen += 1
            if not isinstance(group.get(key, getlink=True), h5py.HardLink) or seen > _MAX_OBJECTS:
                raise UserError(
                    f"{name} contains links between its parts or to other files ({key!r}). Save the model"
                    " again with Keras."
                )
            item = group[key]
            if isinstance(item, h5py.Dataset):
                yield item
            else:
                groups.append(item)


def _stored_bytes(dataset: h5py.Dataset, name: str) -> int:
    if dataset.external or dataset.is_virtual:
        raise UserError(
            f"{name} keeps {dataset.name} in another file. Save the model again with Keras, as one file."
        )
    return int(dataset.size or 0) * int(dataset.dtype.itemsize)
