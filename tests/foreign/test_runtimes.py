"""Every kind of file that other tools write, judged by us and run apart from us: the same probabilities to
1e-6.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from scipy.special import softmax

from engine.family.model_file import StandIn
from engine.foreign.examine import Question, examine_files
from engine.foreign.found import find_files
from engine.predictions.file import load_sample_predictions
from engine.predictions.gather import predict
from engine.samples import DIGIT_PREPROCESSING_KERAS, FOLDER, sample_target
from engine.target import open_images
from engine.types import Predictions, Preprocessing
from tests.tiny_teacher import tiny_teacher

FILES = FOLDER / "digits-files"
N = 60
FORMATS = {
    "dynamic": "ONNX, dynamic quantization",
    "float": "ONNX, float",
    "float16": "ONNX, float16",
    "static-qdq": "ONNX, weights and activations quantized (QDQ)",
    "static-qoperator": "ONNX, integer operators (QOperator)",
    "lite-dynamic": "TFLite, dynamic range",
    "lite-float": "TFLite, float",
    "lite-float16": "TFLite, float16",
    "lite-full-integer": "TFLite, full integer",
    "lite-integer-inside": "TFLite, integer inside",
}


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return sample_target().pool_images[:N]


@pytest.fixture(scope="module")
def judged(pixels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Predictions:
    place = tmp_path_factory.mktemp("judged")
    np.save(place / "x.npy", pixels)
    question = Question(DIGIT_PREPROCESSING_KERAS, 10)
    examined = examine_files(find_files(FILES, place / "keep"), question, place / "keep")
    assert {model.name: model.format for model in examined.models} == FORMATS
    crowd = StandIn(tuple("0123456789"))
    return predict(crowd, examined.models, open_images(place / "x.npy"), store=place / "store")


def inputs(pixels: np.ndarray) -> np.ndarray:
    """The teacher's input written out: (n, 32, 32, 1), grey, mean 0.2 and deviation 0.3 of pixels 0..1.

    In the float32 steps that the engine documents (pixel * a + b): quantizing on the fly turns a difference
    in the last bit into another code.
    """
    return (pixels * np.float32(1 / 255 / 0.3) + np.float32(-0.2 / 0.3)).astype(np.float32)[..., None]


def run_onnx(path: Path, images: np.ndarray) -> np.ndarray:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options)
    taken = session.get_inputs()[0]
    kind = {"tensor(float)": np.float32, "tensor(float16)": np.float16}[taken.type]
    # Half precision adds up in another order for another batch, which moves its last bit (1e-3): the engine
    # gives 128 images at a time. Quantizing on the fly goes by single images.
    step = 1 if "dynamic" in path.name else 128
    blocks = [images[start : start + step].astype(kind) for start in range(0, len(images), step)]
    return np.concatenate([session.run(None, {taken.name: block})[0] for block in blocks])


def run_tflite(path: Path, images: np.ndarray) -> np.ndarray:
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path), num_threads=1)
    interpreter.allocate_tensors()
    taken, given = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    rows = []
    for image in images:
        x = image[None]
        if taken["dtype"] is np.int8:
            scale, zero = taken["quantization"]
            x = np.clip(np.round(x / np.float32(scale)) + zero, -128, 127).astype(np.int8)
        interpreter.set_tensor(taken["index"], x)
        interpreter.invoke()
        y = interpreter.get_tensor(given["index"])[0]
        if given["dtype"] is np.int8:
            scale, zero = given["quantization"]
            y = (y.astype(np.float64) - zero) * scale
        rows.append(y)
    return np.array(rows)


def as_probabilities(outputs: np.ndarray) -> np.ndarray:
    """The Keras teacher returns logits, so softmax; where a converter kept a softmax, rows sum to one
    already.
    """
    outputs = outputs.astype(np.float64)
    if (outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1, atol=0.03):
        return outputs / outputs.sum(axis=1, keepdims=True)
    return softmax(outputs, axis=1)


@pytest.mark.parametrize("name", FORMATS)
def test_the_probabilities_are_the_runtimes_own(name: str, judged: Predictions, pixels: np.ndarray) -> None:
    path = next(FILES.glob(f"{name}.*"))
    run = run_onnx if path.suffix == ".onnx" else run_tflite
    wanted = as_probabilities(run(path, inputs(pixels)))
    np.testing.assert_allclose(judged.candidates[judged.names.index(name)], wanted, atol=1e-6)
    assert judged.bytes is not None
    assert judged.bytes[judged.names.index(name)] == path.stat().st_size


def test_the_shipped_predictions_are_what_the_files_answer(judged: Predictions) -> None:
    shipped = load_sample_predictions("digits-files")
    assert shipped.names == judged.names
    assert shipped.file_sha256 == judged.file_sha256
    whole = [name.startswith(("float", "lite-float")) for name in shipped.names]
    ours, theirs = shipped.candidates[:, :N], judged.candidates
    np.testing.assert_allclose(ours[whole], theirs[whole], rtol=2**-13, atol=1e-6)
    # Where activations are integers, a tie may be rounded the other way on another processor; nothing more.
    assert np.abs(ours - theirs).mean(axis=(1, 2)).max() < 0.01
    assert np.mean(ours.argmax(2) == theirs.argmax(2), axis=1).min() > 0.95
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 3e6


def test_few_bits_in_blocks_run_as_onnxruntime_runs_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((3 * 16 * 16, 4)).astype(np.float32) / 10
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True)
    quantizer.process()
    (tmp_path / "m").mkdir()
    onnx.save(quantizer.model.model, tmp_path / "m" / "blocks.onnx")
    pixels = rng.integers(0, 256, (9, 16, 16, 3), dtype=np.uint8)
    np.save(tmp_path / "x.npy", pixels)
    found = find_files(tmp_path / "m", tmp_path / "keep")
    examined = examine_files(found, Question(Preprocessing(16, 16), 4), tmp_path / "keep")
    assert "MatMulNBits" in examined.models[0].format
    result = predict(tiny_teacher(), examined.models, open_images(tmp_path / "x.npy"), store=tmp_path / "s")
    images = (pixels / 255).astype(np.float32).transpose(0, 3, 1, 2)
    wanted = softmax(run_onnx(tmp_path / "m" / "blocks.onnx", images).astype(np.float64), axis=1)
    np.testing.assert_allclose(result.candidates[0], wanted, atol=1e-6)
