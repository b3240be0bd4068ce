"""load_teacher: what the user gave (a name or a file) becomes a Teacher.

Knows the forms a spec can take and what is refused. Each framework's own knowledge is in `engine.importers`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, TypedDict, Unpack

from engine import samples
from engine.guard import STARTING, patience_with, stage
from engine.samples import DIGIT_CLASSES, sample_teacher
from engine.teacher.request import Channels, Interpolation, Layout, LoadRequest, Order, Size
from engine.types import Preprocessing, Teacher, UserError

_PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".pck")
_REFUSED = {
    **dict.fromkeys(
        _PICKLES,
        "a pickle runs code when it is opened. Save the model as .onnx, .keras, .safetensors or .pt2 instead",
    ),
    ".bin": "a .bin file does not say what it is, and may be a pickle. Save the weights as .safetensors",
    ".ckpt": "a training checkpoint carries Python objects. Save only the weights, as .safetensors or .pth",
    ".pb": "a TensorFlow graph cannot be read safely. Load it in Keras and use model.save('model.keras')",
    ".tflite": "a TFLite file is already converted for a device. Give the Keras model it was made from",
}
# Module that may be missing -> the extra of pyproject.toml that brings it.
_EXTRA = {
    "torch": "torch",
    "torchvision": "torch",
    "timm": "torch",
    "onnxscript": "torch",
    "keras": "keras",
    "tensorflow": "keras",
    "tf2onnx": "keras",
    "h5py": "keras",
}
FORMATS = ".onnx, .keras, .h5, .pt2, or .safetensors / .pth with its architecture and number of classes"
_ACCEPTED = f"a file ({FORMATS}), timm:NAME or sample:NAME"


class Stated(TypedDict, total=False):
    """The fields of a `LoadRequest` beside its spec, as keywords."""

    arch: str | None
    classes: int | None
    size: Size | None
    channels: Channels | None
    layout: Layout | None
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    scale: float | None
    resize: int | None
    interpolation: Interpolation | None
    order: Order | None
    class_names: Sequence[str] | None
    preprocessing: Preprocessing | None
    max_bytes: int


def load_teacher(spec: str | Path | LoadRequest, **stated: Unpack[Stated]) -> Teacher:
    """Load a trained classifier from `timm:NAME`, `sample:NAME`, or a file (.onnx, .keras, .h5, .pt2,
    .safetensors, .pth).

    What is stated, as keywords or in a `LoadRequest` (which says what each means), wins over what the model
    says about itself. Nothing inside a file is executed. Raises UserError if the model is refused, with the
    reason.
    """
    request = request_of(spec, stated)
    try:
        with _uncollected():
            teacher = _load(request)
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in _EXTRA:
            raise
        raise UserError(
            f"{Path(request.spec).name} needs {package}, which is not installed. Run:"
            f" {_pip_line(_EXTRA[package])}"
        ) from error
    from engine.teacher.graph import restate

    wanted = request.preprocess(teacher.preprocessing)
    return restate(teacher, preprocessing=None if wanted == teacher.preprocessing else wanted)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Put off the collection of reference cycles: importing a framework and writing a graph down make
    millions of objects that stay, and going through them again and again takes a fifth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def request_of(spec: str | Path | LoadRequest, stated: Stated) -> LoadRequest:
    """Return the request that keywords complete."""
    request = spec if isinstance(spec, LoadRequest) else LoadRequest(spec=str(spec))
    names = stated.get("class_names", request.class_names)
    values: Any = {**stated, "class_names": None if names is None else tuple(names)}
    return replace(request, **values)


def _load(request: LoadRequest) -> Teacher:
    kind, _, name = request.spec.partition(":")
    if kind == "timm" and name:
        from engine.teacher.importers.timm import import_pretrained

        return import_pretrained(
            name,
            shape=request.shape,
            preprocessing=request.preprocessing,
            class_names=request.class_names,
        )
    if kind == "sample" and name:
        return _load_sample(name, request)
    return _load_file(Path(request.spec), request)


def _pip_line(extra: str) -> str:
    """The command that adds a framework: to the installed package, or to a checkout."""
    try:
        distribution("anchorpoint")
    except PackageNotFoundError:
        return "pip install -r requirements.txt"
    return f'pip install "anchorpoint[{extra}]"'


def source_path(spec: str) -> Path | None:
    """Return the file behind a teacher spec, which native copies build on; None for a model that has none
    here.
    """
    kind, _, name = spec.partition(":")
    teacher = samples.SAMPLES[name].teacher if kind == "sample" and name in samples.SAMPLES else None
    path = samples.FOLDER / teacher if teacher is not None else Path(spec)
    return path if path.is_file() else None


def load_sample_teacher(name: str) -> Teacher:
    """Load a sample's teacher as any file is loaded, with the preprocessing it was trained with.

    Raises UserError for an unknown name, or for a sample that ships predictions only.
    """
    path, preprocessing = sample_teacher(name)
    return load_teacher(path, preprocessing=preprocessing, class_names=DIGIT_CLASSES)


def _load_sample(name: str, request: LoadRequest) -> Teacher:
    from engine.teacher.graph import restate

    return restate(
        load_sample_teacher(name), preprocessing=request.preprocessing, class_names=request.class_names
    )


def _load_file(path: Path, request: LoadRequest) -> Teacher:
    suffix = path.suffix.lower()
    if path == Path():
        raise UserError("no teacher was named.", f"Give {_ACCEPTED}.")
    if suffix in _REFUSED:
        raise UserError(f"{path.name} is refused: {_REFUSED[suffix]}.")
    if path.is_dir():
        raise UserError(
            f"{path.name} is a folder; a teacher is one file. For a SavedModel, use model.save('model.keras')"
            " and give that."
        )
    if suffix in (".safetensors", ".pth", ".pt"):
        _check_size(path, request.max_bytes)
        return _load_checkpoint(path, request)
    loaders = {
        ".pt2": _load_program,
        ".keras": _load_keras,
        ".h5": _load_keras,
        ".hdf5": _load_keras,
        ".onnx": _load_onnx,
    }
    if suffix not in loaders:
        raise UserError(
            f"{str(path)!r} is not a teacher we can read.", f"Give {_ACCEPTED}.", option=("arch", "classes")
        )
    _check_size(path, request.max_bytes)
    return loaders[suffix](path, request)


def _check_size(path: Path, max_bytes: int) -> None:
    if not path.is_file():
        raise UserError(f"there is no file {str(path)!r}. Check the path.")
    size = path.stat().st_size
    if size == 0:
        raise UserError(f"{path.name} is empty. Copy or save the model again.")
    if size > max_bytes:
        raise UserError(
            f"{path.name} has {size / 1e9:.2f} GB; a teacher has up to {max_bytes / 1e9:.2f} GB. Give a"
            " smaller model."
        )


def _begin(what: str, path: Path) -> None:
    """Start the clock of a file: reading, translating and running it share one, by its size on the disk."""
    stage(what, patience=patience_with(path.stat().st_size))


def _load_checkpoint(path: Path, request: LoadRequest) -> Teacher:
    if request.arch is None:
        raise UserError(
            f"{path.name} holds weights without their architecture.",
            "Save a torch model with torch.export.save to a .pt2 file, or, for one of timm's, name the"
            " architecture and the number of classes.",
            option=("arch", "classes"),
        )
    stage("loading PyTorch", patience=STARTING)
    from engine.teacher.importers.checkpoint import read_weights
    from engine.teacher.importers.timm import import_weights

    _begin("reading the weights", path)
    return import_weights(
        request.arch,
        read_weights(path, max_bytes=request.max_bytes),
        name=path.stem,
        classes=request.classes,
        shape=request.shape,
        preprocessing=request.preprocessing,
        class_names=request.class_names,
        source=f"{path.name} ({request.arch})",
    )


def _load_program(path: Path, request: LoadRequest) -> Teacher:
    stage("loading PyTorch", patience=STARTING)
    from engine.teacher.importers.exported_program import import_program

    _begin("reading the program", path)
    return import_program(
        path,
        size=request.shape.size,
        preprocessing=request.preprocessing,
        class_names=request.class_names,
        max_bytes=request.max_bytes,
    )


def _load_keras(path: Path, request: LoadRequest) -> Teacher:
    stage("loading TensorFlow", patience=STARTING)
    from engine.teacher.importers.keras import import_model
    from engine.teacher.importers.keras_file import read_model

    _begin("reading the model", path)
    model = read_model(path, max_bytes=request.max_bytes)
    return import_model(
        model,
        name=path.stem,
        size=request.shape.size,
        preprocessing=request.preprocessing,
        class_names=request.class_names,
        source=path.name,
    )


def _load_onnx(path: Path, request: LoadRequest) -> Teacher:
    from engine.teacher.importers.onnx import PATIENCE, import_graph

    stage("reading the graph", patience=PATIENCE)
    return import_graph(
        path,
        shape=request.shape,
        preprocessing=request.preprocessing,
        class_names=request.class_names,
        max_bytes=request.max_bytes,
    )
