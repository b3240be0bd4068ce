"""What a Keras configuration asks for, before Keras builds any of it: weights that the file does not hold,
shapes beyond reason, models that call each other without end.

Knows the words of a configuration. Knows nothing of TensorFlow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from engine.types import UserError

# A layer with so many of these has at least as many weights of its own.
_WEIGHED = ("units", "filters", "input_dim", "output_dim", "key_dim", "num_heads", "depth_multiplier")
# These shape what is computed; together they multiply.
_SHAPING = ("n", "size", "padding", "cropping", "strides", "kernel_size", "pool_size", "dilation_rate")
_SHAPED = ("target_shape", "height", "width", "batch_shape", "batch_input_shape")
_LARGEST = 10**8  # numbers that a layer may be told to make of one, or of one image
_MOST_CALLS = 20_000  # of layers, once models inside models are unfolded; large networks have a thousand


def check_sizes(config: Any, n_weights: int) -> None:
    """Raise UserError if a configuration asks for more than a file with `n_weights` numbers can mean."""
    if not isinstance(config, dict):
        return
    for name, stated in _layers(config):
        for key in _WEIGHED:
            asked = stated.get(key)
            if isinstance(asked, int) and asked > n_weights:
                raise UserError(
                    f"{name} asks for {key} = {asked:,}, and the file holds {n_weights:,} weights in all.",
                    "Save the whole model again with Keras.",
                )
        for keys in (_SHAPING, _SHAPED):
            asked = math.prod(max(1, abs(number)) for key in keys for number in _numbers(stated.get(key)))
            if asked > _LARGEST:
                raise UserError(
                    f"{name} asks for a shape of {asked:.1e} numbers; up to {_LARGEST:.0e} are allowed.",
                    "Save the model with the image size it was trained for.",
                )
    if (calls := _calls(config)) > _MOST_CALLS:
        raise UserError(
            f"the model calls its layers {calls:,} times once the models inside it are unfolded; up to"
            f" {_MOST_CALLS:,} are allowed.",
            "Save a flat model.",
        )


def _layers(value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every configured object, with the words it goes by."""
    if isinstance(value, list):
        for item in value:
            yield from _layers(item)
    elif isinstance(value, dict):
        stated = value.get("config")
        if isinstance(stated, dict) and "class_name" in value:
            yield f"the layer {str(stated.get('name', ''))[:80]!r} ({str(value['class_name'])[:40]})", stated
        for item in value.values():
            yield from _layers(item)


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


def _calls(model: Mapping[str, Any]) -> int:
    """How often layers are called when a model is called once."""
    config = model.get("config")
    layers = config.get("layers") if isinstance(config, dict) else None
    if not isinstance(layers, list):
        return 1
    total = 0
    for layer in layers:
        if isinstance(layer, dict):
            nodes = layer.get("inbound_nodes")
            times = max(1, len(nodes)) if isinstance(nodes, list) else 1
            total += times * _calls(layer)
    return max(total, 1)
