"""Run an exported file every way a stranger may run it, and compare with the probabilities it must repeat.

Knows onnxruntime, onnx's reference evaluator and the limits. Knows nothing of files, sizes or certificates as
a whole.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from engine.exports.certificate import Check
from engine.family.weights import candidate_weights
from engine.teacher.agreement import softmax
from engine.teacher.apart import LEVELS, Way, opened
from engine.teacher.reason import reason
from engine.teacher.runtime import FAILURES, excess
from engine.types import FLOOR, Floats, Recipe, Teacher, UserError
from engine.words import percent

Weights = Mapping[str, NDArray[np.float32]]

# of a probability, in onnxruntime: two orders above float32 rounding, two below what activation quantization
# does
LIMIT = 1e-5
_HALF_BITS, _SINGLE_BITS = 11, 24  # significant bits of half and single precision
_COARSE_BITS = 16  # with more of them, rounding stays below LIMIT
LARGEST_LIMIT = 1e-3  # where a model magnifies rounding; what quantized activations do is far beyond it
REFERENCE_LIMIT = 1e-4  # the reference evaluator sums in another order, in NumPy
KL_LIMIT = 1e-5
ONE_THREAD, AS_ANYBODY = Way(), Way(all_threads=True)
_BATCH = 16


@dataclass(frozen=True, eq=False)
class Comparison:
    """Inputs (n, ...) float32, the probabilities (n, K) it must repeat, what the file returns, and how far it
    may be off.
    """

    images: NDArray[np.float32]
    judged: Floats
    output: str
    limit: float = LIMIT


def probabilities(outputs: Floats, output: str) -> Floats:
    """Return probabilities (n, K) of a file's raw outputs."""
    return softmax(outputs) if output == "logits" else np.asarray(outputs, np.float64)


def run_file(content: bytes, images: NDArray[np.float32], output: str, way: Way = ONE_THREAD) -> Floats:
    """Return the probabilities (n, K) of an ONNX file on prepared images, in small batches.

    Raises UserError with onnxruntime's reason if it cannot load or run the file.
    """
    try:
        run = opened(content, way)
        batches = [run(None, images[i : i + _BATCH])[0] for i in range(0, len(images), _BATCH)]
    except FAILURES as error:
        if what := excess(error):
            raise UserError(
                f"the model asks for {what} on {len(images)} images of shape {images.shape[1:]}.",
                "Give a smaller model; the host's limit is set by ANCHORPOINT_JUDGE_MEMORY_GB.",
            ) from error
        raise UserError(
            f"onnxruntime cannot run the model on the {len(images)} images: {reason(error)}. Export the"
            " teacher with standard ONNX operators and a dynamic batch size."
        ) from error
    return probabilities(np.concatenate(batches), output)


def float_candidate(teacher: Teacher, weights: Weights) -> bytes:
    """Return the float graph with a candidate's dequantized kernels: the model that is judged."""
    model = onnx.ModelProto.FromString(teacher.graph)
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(numpy_helper.from_array(weights[tensor.name], tensor.name))
    content: bytes = model.SerializeToString()
    return content


def rounding_limit(candidate: bytes, images: NDArray[np.float32], output: str) -> float:
    """Return how far from the judged probabilities a faithful file may be: 1e-5, unless the float graph
    itself moves as much.

    A network that magnifies float32 rounding differs from itself between optimization levels, which sum in
    other orders. Eight times that spread is allowed then, never more than 1e-3.
    """
    runs = [run_file(candidate, images, output, Way(level)) for level in ("disabled", "basic", "all")]
    spread = max(float(np.abs(run - runs[-1]).max()) for run in runs)
    return max(LIMIT, min(8 * spread, LARGEST_LIMIT))


def image_digests(images: NDArray[np.float32]) -> tuple[str, ...]:
    """Return the sha256 of each prepared image's float32 bytes."""
    return tuple(hashlib.sha256(np.ascontiguousarray(image, "<f4").tobytes()).hexdigest() for image in images)


# --- checks -------------------------------------------------------------------------------


def check_weights(content: bytes, teacher: Teacher, recipe: Recipe, weights: Weights | None = None) -> Check:
    """Check that the kernels onnxruntime unpacks from the file equal the recipe's bit for bit, float
    endpoints included.
    """
    wanted = {**teacher.weights, **(weights if weights is not None else candidate_weights(teacher, recipe))}
    found = _unpacked(
        onnx.ModelProto.FromString(content), {kernel.name: kernel.shape for kernel in teacher.kernels}
    )
    wrong = [
        name
        for name, array in found.items()
        if array.tobytes() != np.ascontiguousarray(wanted[name]).tobytes()
    ]
    sentence = f"All {len(found)} kernels in the file equal the recipe's bit for bit."
    if wrong:
        sentence = f"{len(wrong)} of {len(found)} kernels differ from the recipe's, first {wrong[0]}."
    return Check(name="weights", passed=not wrong, value=float(len(wrong)), limit=0.0, sentence=sentence)


def _unpacked(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> dict[str, NDArray[np.float32]]:
    """Return the kernels as the runtime unpacks them: the file cut off behind the kernels."""
    stored = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in model.graph.initializer
        if tensor.name in shapes
    }
    needed = made = set(shapes) - set(stored)
    nodes: list[onnx.NodeProto] = []
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            nodes.insert(0, node)
            needed = needed | set(node.input)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in sorted(made)]
    initializers = [tensor for tensor in model.graph.initializer if tensor.name in needed]
    cut = helper.make_model(
        helper.make_graph(nodes, "kernels", [], outputs, initializers),
        opset_imports=model.opset_import,
        ir_version=model.ir_version,
    )
    session = ort.InferenceSession(
        cut.SerializeToString(), ONE_THREAD.options(), providers=["CPUExecutionProvider"]
    )
    return {**stored, **dict(zip(sorted(made), session.run(None, {}), strict=True))}


def rounded_bits(stored: Floats) -> int | None:
    """Return how many significant bits stored probabilities keep if those are too few to compare a file with:
    half precision keeps 11, the shipped samples 14. None for full ones.

    >>> rounded_bits(np.array([[0.3, 0.7]], np.float16)), rounded_bits(np.array([[0.3, 0.7]], np.float32))
    (11, None)
    """
    if stored.dtype == np.float16:
        return _HALF_BITS
    mantissas = (np.frexp(np.asarray(stored, np.float64))[0] * 2**_SINGLE_BITS).astype(np.int64)
    used = int(np.bitwise_or.reduce(mantissas, axis=None))
    bits = _SINGLE_BITS - ((used & -used).bit_length() - 1 if used else 0)
    # Fewer bits than half precision are no rounding but round numbers, such as certainty.
    return bits if _HALF_BITS < bits <= _COARSE_BITS else None


def check_rounded(stored: Floats, judged: Floats, bits: int) -> Check:
    """Check predictions stored with `bits` significant bits, whose rounding alone is up to 2^-(bits+1),
    against freshly computed ones.
    """
    limit = LIMIT + 2.0 ** -(bits + 1)
    check = difference_check("stored predictions", np.asarray(stored, np.float64), judged, limit)
    kept = "are in half precision" if bits == _HALF_BITS else f"keep {bits} significant bits"
    rounding = (
        f"The stored predictions {kept}, so the file is compared with the float graph run now, and that with"
        " them. "
    )
    return replace(check, sentence=rounding + check.sentence)


def runtime_checks(content: bytes, comparison: Comparison) -> Iterator[Check]:
    """Yield one check per way to run the file in onnxruntime, then argmax agreement and KL of the default
    way.
    """
    ways = {f"onnxruntime, optimization {level}": Way(level) for level in LEVELS}
    ways |= {
        "onnxruntime, folded to float": Way(folded=True),
        "onnxruntime, default options": AS_ANYBODY,
    }
    probs: Floats = comparison.judged
    for name, way in ways.items():
        try:
            probs = run_file(content, comparison.images, comparison.output, way)
        except UserError as error:
            yield Check(
                name=name,
                passed=False,
                value=None,
                limit=comparison.limit,
                sentence=f"onnxruntime refuses the file: {reason(error.__cause__ or error)}",
            )
            return
        yield difference_check(name, probs, comparison.judged, comparison.limit)
    yield argmax_check(probs, comparison.judged, comparison.limit)
    yield _divergence(probs, comparison.judged)
    yield batch_check(content, comparison)


def reference_check(content: bytes, comparison: Comparison, *, seconds: float = 8.0) -> Check:
    """Check the file in onnx's reference evaluator, image by image until `seconds` have passed (at least one
    image).
    """
    name = "onnx reference evaluator"
    started = time.monotonic()
    probs: list[Floats] = []
    try:
        run = opened(content, Way(reference=True))
        while len(probs) < len(comparison.images) and (not probs or time.monotonic() - started < seconds):
            image = comparison.images[len(probs) : len(probs) + 1]
            probs.append(probabilities(run(None, image)[0], comparison.output))
    except (NotImplementedError, RuntimeError) as error:
        return Check(
            name=name,
            passed=True,
            value=None,
            limit=REFERENCE_LIMIT,
            sentence=f"Not run, and not counted: the evaluator lacks an operator ({reason(error)}).",
        )
    judged = comparison.judged[: len(probs)]
    return difference_check(
        f"{name}, {len(probs)} images", np.concatenate(probs), judged, max(REFERENCE_LIMIT, comparison.limit)
    )


def difference_check(name: str, probs: Floats, judged: Floats, limit: float) -> Check:
    """Compare probabilities with those they must repeat."""
    value = float(np.abs(probs - judged).max()) if probs.shape == judged.shape else float("inf")
    passed = bool(value < limit)  # nan is no pass
    verdict = "" if passed else ": this is another model"
    return Check(
        name=name,
        passed=passed,
        value=value,
        limit=limit,
        sentence=f"Probabilities differ by at most {value:.1e} from the expected ones{verdict}.",
    )


def argmax_check(probs: Floats, judged: Floats, limit: float) -> Check:
    """Check that the predicted class is the same, ties within the limit aside."""
    if probs.shape != judged.shape:
        return Check(
            name="same class",
            passed=False,
            value=None,
            limit=1.0,
            sentence=f"The file returns {probs.shape[1]} classes, {judged.shape[1]} are expected.",
        )
    same = probs.argmax(axis=1) == judged.argmax(axis=1)
    top = np.sort(judged, axis=1)[:, -2:]
    tied = top[:, 1] - top[:, 0] < 2 * limit  # too close for any float arithmetic to order
    excused = int((~same & tied).sum())
    agreement = float(np.mean(same | tied))
    note = f" ({excused} exact ties aside)" if excused else ""
    return Check(
        name="same class",
        passed=agreement == 1.0,
        value=agreement,
        limit=1.0,
        sentence=f"The predicted class agrees on {percent(agreement)} of the images{note}.",
    )


def _divergence(probs: Floats, judged: Floats) -> Check:
    if probs.shape != judged.shape:
        return Check(
            name="KL divergence",
            passed=False,
            value=None,
            limit=KL_LIMIT,
            sentence="Cannot be computed between different numbers of classes.",
        )
    p, q = np.maximum(judged, FLOOR).astype(np.float64), np.maximum(probs, FLOOR)
    value = float(np.mean(np.sum(judged * (np.log(p) - np.log(q)), axis=1)))
    value = 0.0 if -KL_LIMIT < value < 0 else value  # rounding: no divergence is below zero
    return Check(
        name="KL divergence",
        passed=bool(abs(value) < KL_LIMIT),
        value=value,
        limit=KL_LIMIT,
        sentence=f"KL(expected ‖ exported) is {value:.2g} on average.",
    )


def batch_check(content: bytes, comparison: Comparison) -> Check:
    """A file whose batch size got fixed runs one size only."""
    n = min(3, len(comparison.images))
    answer = opened(content, ONE_THREAD)

    def run(start: int, stop: int) -> Floats:
        return probabilities(answer(None, comparison.images[start:stop])[0], comparison.output)

    try:
        value = float(np.abs(run(0, n) - np.concatenate([run(i, i + 1) for i in range(n)])).max())
    except FAILURES as error:
        return Check(
            name="batch size",
            passed=False,
            value=None,
            limit=comparison.limit,
            sentence=f"The file does not run at every batch size: {reason(error)}",
        )
    return Check(
        name="batch size",
        passed=value < LIMIT,
        value=value,
        limit=LIMIT,
        sentence=f"One image alone and {n} together give the same probabilities, to {value:.1e}.",
    )
