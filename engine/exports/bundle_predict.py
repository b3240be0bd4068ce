"""Classify images with the model.onnx beside this file: python predict.py photo.jpg other.png

Needs onnxruntime, numpy and pillow. How an image is prepared is written in the model itself.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageOps

# onnxruntime reports use to its maker unless told before it is imported
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime as ort

FAST = False  # True unpacks the weights to float at load: faster, and as much memory as the float model


def load(path: str | Path | None = None) -> tuple[Any, dict[str, str]]:
    """Return the session and what the model says about itself."""
    options = ort.SessionOptions()
    if FAST:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    model = str(path or Path(__file__).with_name("model.onnx"))
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    facts = session.get_modelmeta().custom_metadata_map
    return session, {key.removeprefix("anchorpoint."): value for key, value in facts.items()}


def to_rgb(image: Image.Image) -> Image.Image:
    """Return the image upright and in RGB; transparency is laid on white, 16-bit gray becomes 8-bit."""
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I"):
        image = Image.fromarray(((np.asarray(image).astype(np.int64) + 128) // 257).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("RGB")


def to_size(image: Image.Image, p: dict[str, Any]) -> Image.Image:
    """Bring the shorter side to `resize` and crop the centre; without `resize`, squash the image to the input
    size.
    """
    method = Image.Resampling[p["interpolation"].upper()]
    width, height = image.size
    if p["resize"] is None:
        return (
            image
            if image.size == (p["width"], p["height"])
            else image.resize((p["width"], p["height"]), method)
        )
    grown = int(p["resize"] * max(width, height) / min(width, height))
    new_width, new_height = (p["resize"], grown) if width <= height else (grown, p["resize"])
    left, top = round((new_width - p["width"]) / 2.0), round((new_height - p["height"]) / 2.0)
    whole = image if (new_width, new_height) == image.size else image.resize((new_width, new_height), method)
    return whole.crop((left, top, left + p["width"], top + p["height"]))


def prepare(image: Image.Image, p: dict[str, Any]) -> Any:
    """Return one image as the model takes it, float32: sized, ordered, then (pixel * scale - mean) / std,
    computed as pixel * a + b in float32, as it was when the model was judged.
    """
    sized = to_size(to_rgb(image), p)
    pixels = np.asarray(sized.convert("L") if p["channels"] == 1 else sized)
    pixels = pixels.reshape(p["height"], p["width"], p["channels"])
    if p["order"] == "BGR":
        pixels = pixels[..., ::-1]
    std = np.array(p["std"], np.float64)
    a, b = (p["scale"] / std).astype(np.float32), (-np.array(p["mean"]) / std).astype(np.float32)
    values = pixels.astype(np.float32) * a + b
    return np.ascontiguousarray(values.transpose(2, 0, 1) if p["layout"] == "NCHW" else values)


def predict(paths: Sequence[str | Path], model: str | Path | None = None) -> tuple[list[str], Any]:
    """Return the class names and the probabilities (n_images, n_classes)."""
    session, facts = load(model)
    settings = json.loads(facts["preprocessing"])
    batch = np.stack([prepare(Image.open(path), settings) for path in paths])
    outputs = session.run(None, {session.get_inputs()[0].name: batch})[0].astype(np.float64)
    if facts["output"] == "logits":
        outputs = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        outputs /= outputs.sum(axis=1, keepdims=True)
    return json.loads(facts["class_names"]), outputs


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python predict.py IMAGE [IMAGE ...]")
    names, probabilities = predict(sys.argv[1:])
    for path, row in zip(sys.argv[1:], probabilities, strict=True):
        print(f"{path}\t{names[int(row.argmax())]}\t{row.max():.4f}")
