"""Classify images with the model file beside this script: python predict.py photo.jpg other.png

Needs numpy, pillow and the runtime that certificate.json names: onnxruntime, or ai-edge-litert.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from engine.exports.bundle_predict import prepare  # in a bundle, its text stands here


def run_onnx(path: Path, images: Any, model: dict[str, Any]) -> Any:
    """Return the raw outputs of an ONNX file, batch by batch."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # it reports use to its maker otherwise
    import onnxruntime as ort

    options = ort.SessionOptions()
    if model["unpacked"]:  # it was judged with its weights made floats at load
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    source, output = model["input"]["name"], model["output"]["name"]
    return np.concatenate([session.run([output], {source: batch})[0] for batch in images])


def run_litert(path: Path, images: Any, model: dict[str, Any]) -> Any:
    """Return the raw outputs of a TFLite file, batch by batch."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    taken = next(d for d in interpreter.get_input_details() if d["name"] == model["input"]["name"])
    given = next(d for d in interpreter.get_output_details() if d["name"] == model["output"]["name"])
    if tuple(taken["shape"]) != images[0].shape:  # it leaves a size open
        interpreter.resize_tensor_input(taken["index"], images[0].shape)
    interpreter.allocate_tensors()
    rows = []
    for batch in images:
        interpreter.set_tensor(taken["index"], batch)
        interpreter.invoke()
        rows.append(interpreter.get_tensor(given["index"]).copy())
    return np.concatenate(rows)


def encoded(images: Any, form: dict[str, Any]) -> Any:
    """Return real inputs as the file's own numbers."""
    dtype = np.dtype(form["dtype"])
    if dtype.kind == "f":
        return images.astype(dtype)
    codes = np.rint(images / np.float32(form["scale"])) + form["zero_point"]
    return np.clip(codes, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)


def probabilities(raw: Any, form: dict[str, Any]) -> Any:
    """Return what the raw outputs stand for, rows summing to one; a row of nothing but zeros is a guess."""
    real = raw.astype(np.float64).reshape(len(raw), -1)
    if raw.dtype.kind != "f":
        real = (real - form["zero_point"]) * form["scale"]
    if form["kind"] == "logits":
        real = np.exp(real - real.max(axis=1, keepdims=True))
    real[real.sum(axis=1) == 0] = 1.0
    return real / real.sum(axis=1, keepdims=True)


def predict(paths: Sequence[str | Path], folder: Path | None = None) -> tuple[list[str], Any]:
    """Return the class names and the probabilities (n_images, n_classes)."""
    folder = folder or Path(__file__).parent
    facts = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    model, taken = facts["model"], facts["model"]["input"]
    images = np.stack([prepare(Image.open(path), taken["preprocessing"]) for path in paths])
    size = taken["batch"] or 1
    filled = np.concatenate([images, np.repeat(images[-1:], -len(images) % size, axis=0)])
    batches = encoded(filled, taken).reshape(-1, size, *images.shape[1:])
    run = run_onnx if model["runtime"] == "onnxruntime" else run_litert
    raw = run(folder / facts["file"], batches, model)
    return facts["class_names"], probabilities(raw[: len(paths)], model["output"])


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python predict.py IMAGE [IMAGE ...]")
    names, answers = predict(sys.argv[1:])
    for path, row in zip(sys.argv[1:], answers, strict=True):
        print(f"{path}\t{names[int(row.argmax())]}\t{row.max():.4f}")
