"""Keras files of a few kilobytes that ask for gigabytes or for hours when they are built."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.hostile.framework_files import hdf5, layer, sequential
from tests.hostile.framework_files import keras as bare

_IMAGE = {"class_name": "__keras_tensor__", "config": {"shape": [None, 8, 8, 3], "dtype": "float32"}}


def keras(config: Any) -> bytes:
    """A .keras file with some weights, so that small layers are believed."""
    weights = hdf5(lambda file: file.__setitem__("w", np.zeros(1000, np.float32)))
    return bare(config, weights=weights)


def _named(name: str, kind: str, **config: Any) -> dict[str, Any]:
    made = layer(kind, **config)
    made["config"]["name"] = name
    return made


def _head(*before: dict[str, Any]) -> bytes:
    """A classifier of four classes behind these layers."""
    return keras(sequential(*before, layer("GlobalAveragePooling2D"), layer("Dense", units=4)))


def _chain(n: int, kind: str, **config: Any) -> bytes:
    return _head(*(_named(f"l{i}", kind, **config) for i in range(n)))


def _functional(name: str, layers: list[dict[str, Any]], end: list[Any]) -> dict[str, Any]:
    first = {**_named("image", "InputLayer", batch_shape=[None, 8, 8, 3], dtype="float32"), "name": "image"}
    config = {
        "name": name,
        "layers": [{**first, "inbound_nodes": []}, *layers],
        "input_layers": [["image", 0, 0]],
        "output_layers": [end],
    }
    module = "keras.src.models.functional"
    return {"module": module, "class_name": "Functional", "config": config, "registered_name": "Functional"}


def _call(source: str, node: int) -> dict[str, Any]:
    history = {**_IMAGE, "config": {**_IMAGE["config"], "keras_history": [source, node, 0]}}
    return {"args": [history], "kwargs": {}}


def nested_twice(depth: int) -> bytes:
    """Each model calls the one inside it twice: 2^depth activations from a file that is linear in depth."""
    inner = {**_named("relu", "ReLU"), "name": "relu", "inbound_nodes": [_call("image", 0)]}
    model = _functional("m0", [inner], ["relu", 0, 0])
    for level in range(1, depth):
        name = f"m{level - 1}"
        calls = [_call("image", 0), _call(name, 1)]  # node 0 of a nested model is its own building
        inside = {**model, "name": name, "inbound_nodes": calls}
        model = _functional(f"m{level}", [inside], [name, 2, 0])
    return keras(model)


SWELLING: dict[str, Callable[[], bytes]] = {
    "dense of a billion.keras": lambda: keras(
        sequential(layer("Flatten"), layer("Dense", units=10**9), _named("end", "Dense", units=4))
    ),
    "convolution of a billion.keras": lambda: _head(layer("Conv2D", filters=10**9, kernel_size=[3, 3])),
    "embedding of a billion.keras": lambda: _head(layer("Embedding", input_dim=10**9, output_dim=10**3)),
    "repeat a billion times.keras": lambda: keras(
        sequential(layer("Flatten"), layer("RepeatVector", n=10**9), layer("GlobalAveragePooling1D"))
    ),
    "upsampling chain.keras": lambda: _chain(12, "UpSampling2D", size=[8, 8]),
    "padding chain.keras": lambda: _chain(8, "ZeroPadding2D", padding=[[9999, 9999], [9999, 9999]]),
    "resizing to a billion.keras": lambda: _head(layer("Resizing", height=10**5, width=10**5)),
    "reshape of a billion.keras": lambda: _head(layer("Reshape", target_shape=[10**9, 1, 1])),
    "models that double.keras": lambda: nested_twice(40),
    "transposed stride.keras": lambda: _head(
        layer("Conv2DTranspose", filters=4, kernel_size=[2, 2], strides=[50_000, 50_000])
    ),
    "ten thousand layers.keras": lambda: _chain(10_000, "ReLU"),
}
