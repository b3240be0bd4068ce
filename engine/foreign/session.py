"""Run a model file as it is, in its own runtime: real numbers in, real numbers out, whatever integers the
file uses inside.

Knows onnxruntime and LiteRT. LiteRT may crash on a crafted file, so this module is used in child processes
for files from outside, and LiteRT is imported only when a session of it is made.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.family.model_file import RUNTIMES, ModelFile, OutputForm
from engine.foreign.feeding import encode
from engine.target.prepare import input_shape
from engine.teacher.reason import reason
from engine.teacher.runtime import FAILURES, excess
from engine.types import UserError

_FAILURES: tuple[type[Exception], ...] = (*FAILURES, ValueError, RuntimeError, MemoryError)

_Run = Callable[[NDArray[Any]], NDArray[Any]]


def runtime_version(runtime: str) -> str:
    """Return a runtime's name and version, e.g. "onnxruntime 1.23.0"; raise UserError if it is not
    installed.
    """
    package = RUNTIMES[runtime]
    try:
        return f"{runtime} {_version(package)}"
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"a .{'tflite' if runtime == 'litert' else 'onnx'} file runs in {package}, which is not"
            f" installed. Run: pip install {package}"
        ) from None


@cache  # milliseconds each, asked for every file of a run
def _version(package: str) -> str:
    return importlib.metadata.version(package)


class FileSession:
    """One model file, opened from its bytes in one thread, that answers batches of prepared images."""

    def __init__(self, content: bytes, model: ModelFile) -> None:
        """Open the file; raise UserError with the runtime's own reason if that fails."""
        self._input, self._output = model.input, model.output
        opened = _open_onnx if model.runtime == "onnxruntime" else _open_litert
        self._run = opened(content, model)

    def outputs(self, images: NDArray[np.float32]) -> NDArray[Any]:
        """Return real outputs (n, ...) for normalised images (n, *input_shape)."""
        return self.run(encode(images, self._input))

    def run(self, encoded: NDArray[Any]) -> NDArray[Any]:
        """Return real outputs (n, ...) for images as the file takes them (see `Feed`), called in the file's
        own batches.
        """
        n, size = len(encoded), self._input.batch or len(encoded)
        if n % size:  # the file takes whole batches only: fill the last one up, and drop what that gives
            filling = np.resize(encoded[-(n % size) :], (size - n % size, *encoded.shape[1:]))
            encoded = np.concatenate([encoded, filling])
        blocks = self._blocks([encoded[start : start + size] for start in range(0, n, size)])
        given = decode(blocks[0] if len(blocks) == 1 else np.concatenate(blocks), self._output)[:n]
        return given.reshape(n, -1) if given.size == n * self._output.n_classes else given

    def _blocks(self, images: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Run batches of one size."""
        shape, size = images[0].shape, len(images[0])
        try:
            results = [self._run(batch) for batch in images]
        except _FAILURES as error:
            if what := excess(error):
                raise UserError(f"it asks for {what} on images of shape {shape}") from None
            raise UserError(f"it fails on images of shape {shape}: {reason(error)}") from None
        for result in results:
            if result.ndim < 1 or len(result) != size:
                raise UserError(f"it returns shape {result.shape} for {size} images")
        return results


def decode(outputs: NDArray[Any], form: OutputForm) -> NDArray[Any]:
    """Return the file's own numbers as real outputs."""
    if outputs.dtype.kind == "f":
        return outputs
    codes = outputs.astype(np.float64) - form.zero_point
    return codes * form.scale


def _open_onnx(content: bytes, model: ModelFile) -> _Run:
    options = ort.SessionOptions()  # onnxruntime's own optimisation: what people deploy with
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if model.unpacked:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        session = ort.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except FAILURES as error:
        raise UserError(f"onnxruntime cannot open it: {reason(error)}") from None
    source, output = model.input.name, model.output.name
    return lambda images: np.asarray(session.run([output], {source: images})[0])


def _open_litert(content: bytes, model: ModelFile) -> _Run:
    interpreter = make_interpreter(content)
    taken = _details(interpreter.get_input_details(), model.input.name)
    shape = (model.input.batch or 1, *input_shape(model.input.preprocessing))
    try:
        if tuple(taken["shape"]) != shape:  # it leaves a size open
            interpreter.resize_tensor_input(taken["index"], shape)
        interpreter.allocate_tensors()
    except (ValueError, RuntimeError, MemoryError) as error:
        raise UserError(f"LiteRT cannot open it: {reason(error)}") from None
    source = taken["index"]
    output = _details(interpreter.get_output_details(), model.output.name)["index"]

    def run(images: NDArray[Any]) -> NDArray[Any]:
        interpreter.set_tensor(source, images)
        interpreter.invoke()
        return np.asarray(interpreter.get_tensor(output))

    return run


def _details(ports: Sequence[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(port for port in ports if port["name"] == name)


def make_interpreter(content: bytes) -> Any:
    """Return a one-thread LiteRT interpreter; raise UserError if LiteRT refuses the file. In a child process
    only.
    """
    runtime_version("litert")
    litert = importlib.import_module("ai_edge_litert.interpreter")
    try:
        return litert.Interpreter(model_content=content, num_threads=1)
    except (ValueError, RuntimeError, TypeError, MemoryError) as error:
        raise UserError(f"LiteRT cannot open it: {reason(error)}") from None
