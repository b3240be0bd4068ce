"""Build timm architectures, pretrained or from a local checkpoint, with the preprocessing timm states for
them.

Knows timm. Checkpoint files are read by `engine.teacher.importers.checkpoint`; the graph is made by
`engine.teacher.importers.torch`.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import importlib
import math
import socket
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch

from engine.teacher.importers.torch import import_module
from engine.teacher.request import InputShape, Interpolation
from engine.types import Preprocessing, Teacher, UserError

_UNSTATED = InputShape()
_INTERPOLATIONS: dict[str, Interpolation] = {
    "nearest": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "lanczos",
}


def import_pretrained(
    name: str,
    *,
    shape: InputShape = _UNSTATED,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
) -> Teacher:
    """Import `name` with the weights timm publishes for it; the input size is the one timm states unless
    `shape` has another.

    Raises UserError if timm does not know the name, has no weights for it, or cannot reach the hub.
    """
    _require_known(name)
    if not timm().models.is_model_pretrained(name):
        raise UserError(
            f"timm has no pretrained weights for {name!r}.",
            "Choose a name from timm.list_pretrained(), or give a local checkpoint with its architecture and"
            " number of classes.",
            option=("arch", "classes"),
        )
    try:
        with _cache_only_unless_reachable():
            model = _create(name, shape.size, pretrained=True, **_channels(shape))
    except _download_errors() as error:
        raise UserError(
            f"the pretrained weights of {name!r} cannot be downloaded ({type(error).__name__}).",
            "Check the connection, or download the checkpoint elsewhere and give the file with its"
            " architecture and number of classes.",
            option=("arch", "classes"),
        ) from error
    return _import(
        model, name, source=f"timm:{name}", shape=shape, preprocessing=preprocessing, class_names=class_names
    )


def build(
    arch: str, classes: int, *, channels: int = 3, size: tuple[int, int] | None = None
) -> torch.nn.Module:
    """Make an untrained `arch` with `classes` outputs, for images of `size` (height, width) where the
    architecture asks for one.
    """
    _require_known(arch)
    return _create(arch, size, num_classes=classes, in_chans=channels)


def _create(arch: str, size: tuple[int, int] | None, **options: Any) -> torch.nn.Module:
    if size is not None:
        with contextlib.suppress(
            TypeError
        ):  # a convolutional architecture takes any size and has no such argument
            return _module(timm().create_model(arch, img_size=size, **options))
    return _module(timm().create_model(arch, **options))


def _channels(shape: InputShape) -> dict[str, int]:
    return {} if shape.channels is None else {"in_chans": shape.channels}


def import_weights(
    arch: str,
    weights: Mapping[str, torch.Tensor],
    *,
    name: str,
    classes: int | None = None,
    shape: InputShape = _UNSTATED,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    source: str = "timm",
) -> Teacher:
    """Import the architecture `arch` with the given state dict.

    Raises UserError naming the tensors that are missing, unexpected or of another shape.
    """
    if classes is None:
        raise UserError(
            "a checkpoint does not say how many classes it has.",
            f"State the number of classes of this {arch}.",
            option="classes",
        )
    if classes < 2:
        raise UserError(f"a classifier has 2 or more classes, got {classes}.", option="classes")
    model = build(arch, classes, channels=shape.channels or 3, size=shape.size)
    _load(model, weights, arch, classes)
    return _import(
        model, name, source=source, shape=shape, preprocessing=preprocessing, class_names=class_names
    )


def timm_preprocessing(model: torch.nn.Module, shape: InputShape = _UNSTATED) -> Preprocessing:
    """The preprocessing in the model's timm data config, for images of another size or in grey if `shape`
    says so.

    timm states mean and std for three channels; grey takes their averages.
    """
    config = timm().data.resolve_model_data_config(model)
    channels, height, width = config["input_size"]
    height, width = shape.size or (height, width)
    channels = shape.channels or channels
    mean, std = tuple(config["mean"]), tuple(config["std"])
    if len(mean) != channels:
        mean, std = (sum(mean) / len(mean),) * channels, (sum(std) / len(std),) * channels
    squash = config["crop_mode"] == "squash"
    return Preprocessing(
        height,
        width,
        resize=None if squash else math.floor(max(height, width) / config["crop_pct"]),
        interpolation=_INTERPOLATIONS.get(config["interpolation"], "bicubic"),
        channels=channels,
        scale=1 / 255,
        mean=mean,
        std=std,
    )


@functools.cache
def timm() -> ModuleType:
    """The timm module.

    timm imports torchvision, whose wheel may not match a CPU-only torch: its operators are then missing and
    the import dies on their names. Declaring them is enough, since no classifier calls them. The cache keeps
    the declaration alive.
    """
    try:
        importlib.import_module("torchvision")
    except ModuleNotFoundError:
        pass  # timm itself will say so
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            signature = f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            library.define(signature)  # type: ignore[no-untyped-call]
        module = importlib.import_module("timm")
        module.__dict__["_torchvision_operators"] = library
        return module
    return importlib.import_module("timm")


def _module(model: Any) -> torch.nn.Module:
    assert isinstance(model, torch.nn.Module)
    return model


def _require_known(name: str) -> None:
    if timm().is_model(name):
        return
    near = difflib.get_close_matches(name, timm().list_models(), n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    raise UserError(f"timm knows no architecture {name!r}.{hint} timm.list_models() lists them all.")


@contextlib.contextmanager
def _cache_only_unless_reachable() -> Iterator[None]:
    """Look only at downloaded files when the hub does not answer: its client would otherwise retry for most
    of a minute.
    """
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _answers(constants.ENDPOINT)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _answers(url: str) -> bool:
    if urllib.request.getproxies():
        return True  # only the client knows how to go through the proxy
    address = urllib.parse.urlsplit(url)
    try:
        socket.create_connection((address.hostname or "", address.port or 443), timeout=5).close()
    except OSError:
        return False
    return True


def _download_errors() -> tuple[type[Exception], ...]:
    """What a hub that cannot be reached raises: operating-system errors, and the HTTP client's own."""
    errors: list[type[Exception]] = [OSError]
    for module, name in (("httpx", "HTTPError"), ("requests", "RequestException")):
        if module in sys.modules:
            errors.append(getattr(sys.modules[module], name))
    return tuple(errors)


def _import(
    model: torch.nn.Module,
    name: str,
    *,
    source: str,
    shape: InputShape,
    preprocessing: Preprocessing | None,
    class_names: Sequence[str] | None,
) -> Teacher:
    notes: tuple[str, ...] = ()
    if preprocessing is None:
        preprocessing = timm_preprocessing(model, shape)
        notes = ("The preprocessing is the one timm states for this architecture.",)
    return import_module(
        model,
        name=name,
        input_shape=(preprocessing.channels, preprocessing.height, preprocessing.width),
        preprocessing=preprocessing,
        class_names=class_names,
        source=source,
        notes=notes,
    )


def _load(model: torch.nn.Module, weights: Mapping[str, torch.Tensor], arch: str, classes: int) -> None:
    expected = model.state_dict()
    missing = [name for name in expected if name not in weights]
    unexpected = [name for name in weights if name not in expected]
    reshaped = [
        f"{name} is {tuple(weights[name].shape)}, {arch} has {tuple(value.shape)}"
        for name, value in expected.items()
        if name in weights and weights[name].shape != value.shape
    ]
    for problem, names in (
        ("other shapes", reshaped),
        ("missing tensors", missing),
        ("unexpected tensors", unexpected),
    ):
        if names:
            shown = "; ".join(names[:3]) + (f"; and {len(names) - 3} more" if len(names) > 3 else "")
            raise UserError(
                f"the checkpoint does not fit {arch} with {classes} classes: {problem}: {shown}.",
                "Check the architecture and the number of classes.",
                option=("arch", "classes"),
            )
    model.load_state_dict(dict(weights))
