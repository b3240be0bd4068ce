"""Keras files and what their models expect: code and foreign files are refused by name, known families are
recognised.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
from keras import layers

from engine.target.prepare import normalise, prepare
from engine.teacher.importers.keras import import_model
from engine.teacher.importers.keras_file import read_model
from engine.teacher.importers.keras_input import state_preprocessing
from engine.types import Preprocessing, UserError

pytestmark = pytest.mark.slow
LIMIT = 10**8


def net(*extra: Any, shape: tuple[int | None, ...] = (12, 12, 3), head: Any = None) -> keras.Model:
    images = keras.Input(shape)
    x = layers.Conv2D(4, 3, activation="relu", name="stem")(images)
    for layer in extra:
        x = layer(x)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(images, (head or layers.Dense(3, activation="softmax", name="head"))(x))


class Mine(layers.Layer):
    def call(self, inputs: Any) -> Any:
        return inputs


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
def test_a_plain_model_is_read_with_its_weights(suffix: str, tmp_path: Path) -> None:
    model = net()
    model.compile("adam", "sparse_categorical_crossentropy")
    model.save(tmp_path / f"m{suffix}")
    again = read_model(tmp_path / f"m{suffix}", max_bytes=LIMIT)
    for expected, got in zip(model.get_weights(), again.get_weights(), strict=True):
        np.testing.assert_array_equal(expected, got)


@pytest.mark.parametrize("suffix", [".keras", ".h5"])
@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (lambda: layers.Lambda(lambda x: x * 2, name="evil"), "'evil'.*code of its own"),
        (lambda: Mine(name="mine"), "mine|Mine"),
    ],
    ids=["lambda", "custom"],
)
def test_code_is_refused_with_the_layer_named(
    layer: Callable[[], Any], message: str, suffix: str, tmp_path: Path
) -> None:
    net(layer()).save(tmp_path / f"m{suffix}")
    with pytest.raises(UserError, match=message):
        read_model(tmp_path / f"m{suffix}", max_bytes=LIMIT)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    change(parts)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return path


def foreign_function(parts: dict[str, bytes]) -> None:
    config = json.loads(parts["config.json"])
    config["config"]["layers"][1]["config"]["activation"] = {
        "module": "os",
        "class_name": "function",
        "config": "system",
    }
    parts["config.json"] = json.dumps(config).encode()


def outside_weights(parts: dict[str, bytes]) -> None:
    buffer = io.BytesIO(parts["model.weights.h5"])
    with h5py.File(buffer, "a") as content:
        content["stolen"] = h5py.ExternalLink("elsewhere.h5", "/data")
    parts["model.weights.h5"] = buffer.getvalue()


def huge_weights(parts: dict[str, bytes]) -> None:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as content:
        content.create_dataset("vast", shape=(10**6, 10**6), dtype="f4", chunks=(100, 100), fillvalue=0)
    parts["model.weights.h5"] = buffer.getvalue()


TAMPERED: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "foreign-function": (foreign_function, "stem.*from os"),
    "outside-weights": (outside_weights, "links"),
    "huge-weights": (huge_weights, "declares"),
    "bomb": (lambda parts: parts.update({"model.weights.h5": bytes(2 * LIMIT)}), "unpacks to more"),
    "extra-file": (lambda parts: parts.update({"assets/x.py": b"1"}), "unexpected: assets/x.py"),
    "no-config": (lambda parts: parts.pop("config.json") and None, "not a plain"),
    "broken-config": (lambda parts: parts.update({"config.json": b"{"}), "damaged"),
    "wrong-config": (
        lambda parts: parts.update({"config.json": b'{"class_name": "Nothing"}'}),
        "Keras cannot load",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_archive_is_refused(name: str, tmp_path: Path) -> None:
    change, message = TAMPERED[name]
    net().save(tmp_path / "m.keras")
    with pytest.raises(UserError, match=message):
        read_model(rewritten(tmp_path / "m.keras", change), max_bytes=LIMIT)


def test_damaged_files_and_bare_weights_are_refused(tmp_path: Path) -> None:
    net().save(tmp_path / "m.keras")
    net().save(tmp_path / "m.h5")
    net().save_weights(tmp_path / "w.weights.h5")
    for name in ("m.keras", "m.h5"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:3000])
        with pytest.raises(UserError, match="damaged"):
            read_model(tmp_path / name, max_bytes=LIMIT)
    with pytest.raises(UserError, match="weights without the model"):
        read_model(tmp_path / "w.weights.h5", max_bytes=LIMIT)


def test_models_that_cannot_be_teachers_are_refused() -> None:
    def message(model: keras.Model) -> str:
        with pytest.raises(UserError) as error:
            import_model(model, name="m")
        return str(error.value)

    images = keras.Input((8, 8, 3))
    flat = layers.Flatten()(images)
    assert "2 outputs" in message(keras.Model(images, [layers.Dense(2)(flat), layers.Dense(3)(flat)]))
    assert "returns a dict" in message(keras.Model(images, {"scores": layers.Dense(2)(flat)}))
    assert "no defined input" in message(keras.Sequential([layers.Dense(3)]))
    assert "leaves its input size open" in message(net(shape=(None, None, 3)))
    assert "at least 2 classes" in message(net(head=layers.Dense(1, activation="sigmoid")))
    assert "sigmoid" in message(net(head=layers.Dense(3, activation="sigmoid")))
    assert "'half' computes in float16" in message(
        net(layers.Conv2D(4, 1, dtype="mixed_float16", name="half"))
    )


def test_an_open_image_size_is_stated() -> None:
    teacher = import_model(net(shape=(None, None, 3)), name="m", size=(9, 7))
    assert (teacher.preprocessing.height, teacher.preprocessing.width) == (9, 7)


def base(name: str, **options: Any) -> keras.Model:
    return getattr(keras.applications, name)(
        weights=None, include_top=False, input_shape=(32, 32, 3), **options
    )


def headed(model: keras.Model) -> keras.Model:
    """A new head on the base's output: the model gets a new name, its layers keep theirs."""
    return keras.Model(model.input, layers.Dense(3)(layers.GlobalAveragePooling2D()(model.output)))


def nested(model: keras.Model, first: Callable[[Any], Any]) -> keras.Model:
    images = keras.Input((32, 32, 3))
    return keras.Model(images, layers.Dense(3)(layers.GlobalAveragePooling2D()(model(first(images)))))


FAMILIES = {
    "resnet": "ResNet50",
    "resnet_v2": "ResNet50V2",
    "mobilenet_v2": "MobileNetV2",
    "vgg16": "VGG16",
    "mobilenet": "MobileNet",
    "densenet": "DenseNet121",
}


@pytest.mark.parametrize("module", FAMILIES)
def test_a_known_family_gets_its_own_preprocessing(module: str) -> None:
    """The oracle is keras.applications itself, applied to the same pixels."""
    model = base(FAMILIES[module])
    pixels = np.random.default_rng(0).integers(0, 256, (32, 32, 3)).astype(np.uint8)
    expected = getattr(keras.applications, module).preprocess_input(pixels[None].astype(np.float32).copy())
    for variant in (model, headed(model), nested(model, lambda images: images)):
        stated, note = state_preprocessing(variant, (32, 32, 3))
        assert "preprocess_input" in note
        np.testing.assert_allclose(normalise(prepare(pixels, stated)[None], stated), expected, atol=1e-4)


def test_a_model_that_scales_its_own_input_gets_raw_pixels() -> None:
    def scaled(images: Any) -> Any:
        return keras.applications.mobilenet_v2.preprocess_input(images)

    raw = Preprocessing(32, 32, layout="NHWC", scale=1.0)
    assert state_preprocessing(nested(base("MobileNetV2"), scaled), (32, 32, 3))[0] == raw
    assert (
        state_preprocessing(nested(base("MobileNetV2"), layers.Rescaling(1 / 127.5, -1)), (32, 32, 3))[0]
        == raw
    )
    assert state_preprocessing(base("EfficientNetB0"), (32, 32, 3))[0] == raw
    plain, note = state_preprocessing(net(), (12, 12, 3))
    assert (plain.scale, plain.layout) == (1 / 255, "NHWC")
    assert "not a known" in note
