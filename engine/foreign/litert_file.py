"""Look into a .tflite file: what it takes, what it returns, and how it was quantized.

Knows LiteRT's interpreter, which a crafted file can crash: for child processes only.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from engine.foreign.onnx_file import Insides, Port, Scale
from engine.foreign.session import make_interpreter
from engine.types import UserError

_PASSING = ("QUANTIZE", "DEQUANTIZE", "RESHAPE", "SQUEEZE", "CAST")


def look_into(content: bytes) -> Insides:
    """Describe a .tflite file; raise UserError if LiteRT refuses it or it is no one-input model."""
    if content[4:8] != b"TFL3":
        raise UserError("it is damaged or no TFLite file. Convert or copy it again.")
    interpreter = make_interpreter(content)
    inputs, outputs = interpreter.get_input_details(), interpreter.get_output_details()
    if len(inputs) != 1:
        raise UserError(f"it takes {len(inputs)} inputs; a classifier of images takes one.")
    return Insides(
        taken=_port(inputs[0]),
        given=tuple(
            replace(_port(details), after_softmax=_is_softmax(interpreter, details["index"]))
            for details in outputs
        ),
        format=_format(interpreter, inputs[0]),
        alone="Judged one image at a time, as it is deployed.",
        stated={},
    )


def _is_softmax(interpreter: Any, tensor: int) -> bool:
    """Say whether a tensor comes from a softmax, through rounding and reshaping only."""
    producers = {int(out): step for step in interpreter._get_ops_details() for out in step["outputs"]}
    step = producers.get(tensor)
    while step is not None and step["op_name"] in _PASSING:
        step = producers.get(int(step["inputs"][0]))
    return step is not None and step["op_name"] == "SOFTMAX"


def _port(details: dict[str, Any]) -> Port:
    signature = details.get("shape_signature")
    shape = details["shape"] if signature is None or len(signature) == 0 else signature
    dtype, (scale, zero_point) = np.dtype(details["dtype"]), details["quantization"]
    return Port(
        name=str(details["name"]),
        shape=tuple(int(size) if size > 0 else None for size in shape),
        dtype=str(dtype),
        quantized=Scale(float(scale), int(zero_point)) if scale and dtype.kind in "iu" else None,
    )


def _format(interpreter: Any, taken: dict[str, Any]) -> str:
    tensors = interpreter.get_tensor_details()
    kinds = {str(np.dtype(details["dtype"])) for details in tensors if len(details["shape"]) > 1}
    operators = {details["op_name"] for details in interpreter._get_ops_details()}
    if np.dtype(taken["dtype"]).kind in "iu":
        return "TFLite, full integer"
    if "float16" in kinds:
        return "TFLite, float16"
    if not kinds & {"int8", "uint8", "int16"}:
        return "TFLite, float"
    # activations become integers in a QUANTIZE step; with weights alone there is none
    return "TFLite, integer inside" if "QUANTIZE" in operators else "TFLite, dynamic range"
