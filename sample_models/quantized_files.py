"""Makes the files people really ship: one digit teacher as ten .onnx and .tflite files, quantized by other
tools.

`python -m sample_models.quantized_files`. onnxruntime.quantization writes the ONNX kinds, TensorFlow's
converter the TFLite kinds, both calibrated on printed digits; then all of them are judged on the handwritten
ones as any folder of files is, and the predictions are shipped.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)
from onnxruntime.transformers.float16 import convert_float_to_float16

from engine.foreign.examine import Question, examine_files
from engine.foreign.found import find_files
from engine.predictions.gather import predict
from engine.predictions.store import default_store
from engine.samples import FOLDER, sample_target
from engine.target import open_images
from engine.teacher.load import load_sample_teacher
from engine.types import Predictions, Teacher
from sample_models.digits import render_digits
from sample_models.families import ship
from sample_models.train import normalised

PARENT, NAME = "digits-mobilenet", "digits-files"
N_CALIBRATION, SEED = 200, 1


class _Reader(CalibrationDataReader):  # type: ignore[misc]
    """Printed digits, one at a time, as onnxruntime's calibrator asks for them."""

    def __init__(self, name: str, images: NDArray[np.float32]) -> None:
        self._items = iter([{name: image[None]} for image in images])

    def get_next(self) -> dict[str, NDArray[np.float32]] | None:
        return next(self._items, None)


def calibration_images() -> NDArray[np.float32]:
    """Return printed digits as the teacher takes them, (n, 32, 32, 1)."""
    return normalised(render_digits(N_CALIBRATION, seed=SEED).images)[..., None]


def write_onnx(teacher: Teacher, images: NDArray[np.float32], folder: Path) -> None:
    """Write the float graph and what onnxruntime's own tools make of it."""
    source = folder / "float.onnx"
    options = ort.SessionOptions()
    # the quantizers look for weights that go straight into a Conv: fold what stands between them
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(source)
    name = ort.InferenceSession(teacher.graph, options).get_inputs()[0].name
    model = onnx.load(source)
    for kind in (QuantFormat.QDQ, QuantFormat.QOperator):
        quantize_static(
            source,
            folder / f"static-{kind.name.lower()}.onnx",
            _Reader(name, images),
            quant_format=kind,
            per_channel=kind is QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            # With all 8 bits, processors without VNNI cut sums that others add up: on one and the same file
            # answers then differ by up to 0.7. A sample must say the same everywhere.
            reduce_range=True,
        )
    quantize_dynamic(source, folder / "dynamic.onnx", weight_type=QuantType.QUInt8)
    half = convert_float_to_float16(model, keep_io_types=False)
    onnx.save(half, folder / "float16.onnx")


def write_tflite(images: NDArray[np.float32], folder: Path) -> None:
    """Write what TensorFlow's converter makes of the Keras model: float, float16, dynamic range, integers."""
    import tensorflow as tf

    from engine.teacher.importers.keras_file import read_model

    model = read_model(FOLDER / f"{PARENT}.keras", max_bytes=10**9)

    def examples() -> Iterator[list[NDArray[np.float32]]]:
        for image in images:
            yield [image[None]]

    def convert(name: str, **settings: Any) -> None:
        converter = tf.lite.TFLiteConverter.from_keras_model(model)
        for key, value in settings.items():
            setattr(converter, key, value)
        (folder / f"{name}.tflite").write_bytes(converter.convert())

    smaller = [tf.lite.Optimize.DEFAULT]
    integers = {"optimizations": smaller, "representative_dataset": examples}
    convert("lite-float")
    convert("lite-float16", optimizations=smaller, target_spec=_float16_target(tf))
    convert("lite-dynamic", optimizations=smaller)
    convert("lite-integer-inside", **integers)
    convert("lite-full-integer", **integers, inference_input_type=tf.int8, inference_output_type=tf.int8)


def _float16_target(tf: Any) -> Any:
    target = tf.lite.TargetSpec()
    target.supported_types = [tf.float16]
    return target


def judge(teacher: Teacher, folder: Path, store: Path) -> Predictions:
    """Judge the folder's files on the handwritten digits."""
    target = sample_target()
    keep = store / "files"
    question = Question(teacher.preprocessing, teacher.n_classes)
    examined = examine_files(find_files(folder, keep), question, keep)
    assert not examined.refused, examined.refused
    with tempfile.TemporaryDirectory() as place:
        np.save(Path(place, "pool.npy"), target.pool_images)
        np.save(Path(place, "test.npy"), target.test_images)
        return predict(
            teacher,
            examined.models,
            open_images(Path(place, "pool.npy")),
            labels=target.pool_labels,
            test=(open_images(Path(place, "test.npy")), target.test_labels),
            store=store,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true", help="judge the files that are there already")
    options = parser.parse_args()
    teacher, folder = load_sample_teacher(PARENT), FOLDER / NAME
    if not options.keep:
        folder.mkdir(exist_ok=True)
        images = calibration_images()
        write_onnx(teacher, images, folder)
        write_tflite(images, folder)
    predictions = judge(teacher, folder, default_store())
    ship(predictions, FOLDER / f"{NAME}.npz")
    assert predictions.bytes is not None
    for name, size, probs in zip(predictions.names, predictions.bytes, predictions.candidates, strict=True):
        right = float(np.mean(probs.argmax(1) == predictions.labels))
        print(f"{name:22} {size / 1e3:8.0f} kB  {right:.1%} of the pool right")


if __name__ == "__main__":
    main()
