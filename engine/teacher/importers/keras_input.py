"""What a Keras model expects as input: the preprocessing of its keras.applications family, or what its first
layers show.

Knows the families' published `preprocess_input`. Knows nothing of ONNX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

from engine.teacher.graph import plain_preprocessing
from engine.types import NOT_STATED, Preprocessing, UserError

Mode = Literal["caffe", "tf", "torch"]

# A family is recognised by the model's own name, or by the names of layers only that family has (a head put
# on top of
# `base.output` renames the model, not its layers). The module in keras.applications, its name, its mode, its
# layers.
_FAMILIES: tuple[tuple[str, str, Mode, tuple[str, ...]], ...] = (
    ("resnet_v2", r"resnet(50|101|152)v2", "tf", ("conv1_conv", "post_bn")),
    ("resnet", r"resnet(50|101|152)$", "caffe", ("conv1_conv", "conv1_bn", "conv2_block1_add")),
    ("densenet", r"densenet(121|169|201)", "torch", ("conv1_conv", "conv2_block1_concat")),
    ("vgg", r"vgg(16|19)", "caffe", ("block1_conv1", "block5_conv3")),
    ("mobilenet_v2", r"mobilenetv2_", "tf", ("Conv1", "bn_Conv1", "expanded_conv_depthwise")),
    ("mobilenet", r"mobilenet_\d", "tf", ("conv1", "conv1_bn", "conv_dw_1")),
    ("xception", r"xception", "tf", ("block1_conv1", "block14_sepconv2")),
    ("inception_resnet_v2", r"inception_resnet_v2", "tf", ("mixed_5b", "conv_7b")),
    ("inception_v3", r"inception_v3", "tf", ("mixed0", "mixed10")),
    ("nasnet", r"nasnet", "tf", ("stem_conv1", "stem_bn1")),
)
_PIXEL_ARITHMETIC = ("Rescaling", "Normalization", "TrueDivide", "Divide", "Multiply", "Subtract", "Add")


def state_preprocessing(
    model: Any, shape: tuple[int | None, int | None, int | None]
) -> tuple[Preprocessing, str]:
    """The preprocessing of a Keras model with input (height, width, channels), and the sentence that explains
    it.

    Raises UserError if the model leaves its input size open.
    """
    height, width, channels = shape
    if height is None or width is None or channels is None:
        raise UserError(
            f"the Keras model leaves its input size open {shape}.", "State height and width.", option="size"
        )
    plain = plain_preprocessing(channels, height, width, "NHWC")
    if _scales_itself(model):
        return _with_mode(plain, None), "The model scales its own input, so it is given pixels from 0 to 255."
    family = _family(model)
    if family is None or channels != 3:
        return (
            plain,
            (
                "No preprocessing was stated and the model is not a known keras.applications family:"
                f" {NOT_STATED}."
            ),
        )
    name, mode = family
    return (
        _with_mode(plain, mode),
        f"The layers are those of keras.applications.{name}, so its preprocess_input is used ({mode} mode).",
    )


def _with_mode(plain: Preprocessing, mode: Mode | None) -> Preprocessing:
    """The three conventions of keras.applications.imagenet_utils.preprocess_input, or raw pixels."""
    settings: dict[Mode | None, dict[str, Any]] = {
        None: {"scale": 1.0},
        "caffe": {"scale": 1.0, "order": "BGR", "mean": (103.939, 116.779, 123.68)},
        "tf": {"scale": 1 / 127.5, "mean": (1.0, 1.0, 1.0)},
        "torch": {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)},
    }
    fields = {
        "channels": plain.channels,
        "layout": "NHWC",
        "mean": plain.mean,
        "std": plain.std,
        **settings[mode],
    }
    return Preprocessing(plain.height, plain.width, **fields)


def _nested(model: Any) -> Iterator[Any]:
    """The model and the models inside it."""
    yield model
    for layer in model.layers:
        if hasattr(layer, "layers"):
            yield from _nested(layer)


def _scales_itself(model: Any) -> bool:
    """Whether pixels are scaled by the model before its first weights."""
    for operation in getattr(model, "operations", model.layers):
        if type(operation).__name__ in _PIXEL_ARITHMETIC:
            return True
        if hasattr(operation, "layers"):
            return _scales_itself(operation)
        if getattr(operation, "weights", None):
            return False
    return False


def _family(model: Any) -> tuple[str, Mode] | None:
    parts = list(_nested(model))
    for name, pattern, mode, _ in _FAMILIES:
        if any(re.match(pattern, part.name.lower()) for part in parts):
            return name, mode
    for name, _, mode, signature in _FAMILIES:
        if any({layer.name for layer in part.layers}.issuperset(signature) for part in parts):
            return name, mode
    return None
