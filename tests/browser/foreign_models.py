"""Models and images as strangers bring them: an ONNX file of odd size with names in its metadata, an old
Keras file, a predictions file. Small, untrained but for colour, made in a moment.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

NAMES = ("red", "green", "blue")
HEIGHT, WIDTH = 37, 53


def coloured_images(n: int = 24) -> bytes:
    """A zip of pictures in which one colour prevails, of sizes of their own."""
    rng = np.random.default_rng(0)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for index in range(n):
            pixels = rng.integers(0, 120, (40 + index, 61, 3), dtype=np.uint8)
            pixels[..., index % 3] += 110
            picture = io.BytesIO()
            Image.fromarray(pixels).save(picture, "png")
            archive.writestr(f"photo {index:02}.png", picture.getvalue())
    return packed.getvalue()


def onnx_file() -> bytes:
    """A classifier of colours, 37 x 53, with its class names where another tool leaves them."""
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    first = rng.normal(0, 0.05, (6, 3, 3, 3)).astype(np.float32)
    for channel in range(3):
        first[channel, channel] += 0.4
    middle = (
        rng.normal(0, 0.05, (6, 6, 1, 1)).astype(np.float32) + np.eye(6, dtype=np.float32)[..., None, None]
    )
    second = np.zeros((3, 6), np.float32)
    second[:, :3] = 3 * np.eye(3)
    nodes = [
        helper.make_node("Conv", ["image", "stem.weight"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "middle.weight"], ["m"]),
        helper.make_node("GlobalAveragePool", ["m"], ["c"]),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("Gemm", ["d", "head.weight"], ["scores"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "colours",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, HEIGHT, WIDTH])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 3])],
        [
            numpy_helper.from_array(first, "stem.weight"),
            numpy_helper.from_array(middle, "middle.weight"),
            numpy_helper.from_array(second, "head.weight"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"names": json.dumps(dict(enumerate(NAMES)))})
    content: bytes = model.SerializeToString()
    return content


def keras_h5(path: Path) -> Path:
    """The same in Keras' old format, one HDF5 file."""
    import keras
    from keras import layers

    keras.utils.set_random_seed(0)
    images = keras.Input((HEIGHT, WIDTH, 3))
    x = layers.Conv2D(6, 3, strides=2, activation="relu")(images)
    x = layers.Conv2D(6, 1, activation="relu")(x)
    x = layers.GlobalAveragePooling2D()(x)
    keras.Model(images, layers.Dense(3, activation="softmax")(x)).save(path)
    return path


def predictions_file(path: Path) -> Path:
    """Predictions that some other tool made: names of its own, no cost, no images."""
    from engine.predictions.file import make_predictions, save_predictions
    from tests.families import random_arrays

    teacher, candidates, labels = random_arrays(3, n_images=80, n_classes=3)
    labels[40:] = -1
    names = [f"export_v{index}" for index in range(len(candidates))]
    save_predictions(make_predictions(teacher, candidates, labels=labels, names=names), path)
    return path
