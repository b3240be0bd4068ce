"""Import a Keras model: one ONNX graph with every kernel in Keras' own layout and under its own path,
BatchNorm unfolded.

Knows Keras on TensorFlow and tf2onnx. Knows nothing of files; what the model expects as input is told by
`keras_input`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

# TensorFlow reads it while it is imported, and is loud otherwise
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import onnx
import tensorflow as tf
import tf2onnx
from numpy.typing import NDArray

from engine.guard import stage
from engine.teacher.graph import Description, batch_norm_note, build_teacher
from engine.teacher.importers.keras_input import state_preprocessing
from engine.teacher.reason import reason
from engine.types import Floats, Preprocessing, Teacher, UserError

_OPSET = 18  # the newest tf2onnx writes; the normal form raises it
_INPUT = "images"
_ONE = "one"  # of 1 - erf(x)
_NO_COPIES = "TF2ONNX_CATCH_ERRORS"  # tf2onnx looks whether it is set, not what it says
# What tracing and tf2onnx raise for what they do not know.
_FAILURES = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    AssertionError,
    RuntimeError,  # NotImplementedError is one
    tf.errors.OpError,
)


def import_model(
    model: keras.Model,
    *,
    name: str,
    size: tuple[int, int] | None = None,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    source: str = "keras",
) -> Teacher:
    """Import a trained Keras classifier with one image input (n, H, W, C) and one output (n, K).

    Without `preprocessing`, that of the keras.applications family is used if the model is recognised.
    `size` (height, width) is needed where the model leaves it open.
    Raises UserError for several inputs or outputs, half precision, or a layer that ONNX cannot express.
    """
    height, width, channels = _image_shape(model)
    height, width = size or (height, width)
    _require_float32(model)
    notes = _batch_norm_note(model)
    if preprocessing is None:
        preprocessing, note = state_preprocessing(model, (height, width, channels))
        notes = (note, *notes)
    shape = (preprocessing.height, preprocessing.width, preprocessing.channels)
    _require_tensor(model, shape)
    stage("converting the model", goes_on=True)
    graph = _export(model, shape)

    def reference(images: NDArray[np.float32]) -> Floats:
        # one by one: TensorFlow holds most layers' outputs at once, 2.2 GB for three images of EfficientNetB4
        return np.concatenate([np.asarray(model(image[None], training=False)) for image in images])

    return build_teacher(
        graph,
        Description(
            name=name, source=source, preprocessing=preprocessing, class_names=class_names, notes=notes
        ),
        reference,
    )


def _batch_norm_note(model: keras.Model) -> tuple[str, ...]:
    # tf2onnx writes BatchNorm as a multiplication and an addition, so the graph itself no longer shows it.
    count = sum(isinstance(layer, keras.layers.BatchNormalization) for layer in model._flatten_layers())
    return (batch_norm_note(count),) if count else ()


def _image_shape(model: keras.Model) -> tuple[int | None, int | None, int | None]:
    if keras.backend.backend() != "tensorflow":
        raise UserError(
            f"Keras runs on {keras.backend.backend()}; models are imported through TensorFlow. Set"
            " KERAS_BACKEND=tensorflow."
        )
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise UserError(
            "the Keras model has no defined input and output. Build it as a Functional or Sequential model"
            " with an Input layer."
        )
    for what, tensors in (("input", model.inputs), ("output", model.outputs)):
        if len(tensors) != 1:
            names = ", ".join(tensor.name[:40] for tensor in tensors[:5])
            raise UserError(
                f"the Keras model has {len(tensors)} {what}s ({names}); a teacher has one. Make a keras.Model"
                " with only that one."
            )
    shape = tuple(model.inputs[0].shape)
    if len(shape) != 4:
        raise UserError(
            f"the Keras model takes an input of shape {shape}; a teacher takes images (batch, height, width,"
            " channels)."
        )
    return shape[1], shape[2], shape[3]


def _require_tensor(model: keras.Model, shape: tuple[int, int, int]) -> None:
    try:
        outputs = model(np.zeros((1, *shape), np.float32), training=False)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise UserError(
            f"the Keras model does not accept images of shape {shape}: {reason(error)}."
        ) from error
    if not tf.is_tensor(outputs):
        raise UserError(
            f"the Keras model returns a {type(outputs).__name__}; a teacher returns one tensor (batch,"
            " classes)."
        )


def _require_float32(model: keras.Model) -> None:
    for layer in model._flatten_layers():
        if layer.compute_dtype != "float32" and layer.weights:
            raise UserError(
                f"the layer {layer.name!r} computes in {layer.compute_dtype}; a teacher is the float32 model."
                " Set keras.config.set_dtype_policy('float32'), build the model again and load the weights."
            )


def _export(model: keras.Model, shape: tuple[int, int, int]) -> onnx.ModelProto:
    # A variable that enters as an argument cannot be folded into a neighbour. All with two or more axes do;
    # which of them are kernels is read off the graph afterwards.
    opened = [variable for variable in model.variables if len(variable.shape) >= 2]
    position = {id(variable): index for index, variable in enumerate(opened)}

    def forward(images: tf.Tensor, *kernels: tf.Tensor) -> tf.Tensor:
        def value(variable: Any) -> tf.Tensor:
            index = position.get(id(variable))
            return tf.convert_to_tensor(variable.value) if index is None else kernels[index]

        trainable = [value(variable) for variable in model.trainable_variables]
        fixed = [value(variable) for variable in model.non_trainable_variables]
        return model.stateless_call(trainable, fixed, images, training=False)[0]

    signature = [tf.TensorSpec((None, *shape), tf.float32, name=_INPUT)]
    signature += [
        tf.TensorSpec(variable.shape, variable.dtype, name=f"kernel{i}") for i, variable in enumerate(opened)
    ]
    traced = tf.function(forward)
    graph = _convert(traced, signature)
    _rewrite_erfc(graph.graph)
    _require_known_operators(graph)
    _store_captured(graph.graph, traced.get_concrete_function(*signature))
    _store(graph, opened)
    return graph


def _convert(traced: Any, signature: Sequence[tf.TensorSpec]) -> onnx.ModelProto:
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    with warnings.catch_warnings(), _inlined_functions():
        warnings.simplefilter("ignore")
        for careful in (False, True):
            try:
                with _copying_before_each_optimisation(careful):
                    converted = tf2onnx.convert.from_function(traced, input_signature=signature, opset=_OPSET)
            except _FAILURES as error:
                if careful:
                    raise UserError(
                        f"the Keras model cannot be expressed as an ONNX graph: {reason(error)}."
                    ) from error
            else:
                break
    graph: onnx.ModelProto = converted[0]
    return graph


@contextlib.contextmanager
def _copying_before_each_optimisation(careful: bool) -> Iterator[None]:
    """Whether tf2onnx copies the graph before each of its two dozen optimisations, to undo one that fails: it
    hardly ever does, and the copies take time.
    """
    before = os.environ.pop(_NO_COPIES, None)
    if not careful:
        os.environ[_NO_COPIES] = "FALSE"
    try:
        yield
    finally:
        os.environ.pop(_NO_COPIES, None)
        if before is not None:
            os.environ[_NO_COPIES] = before


@contextlib.contextmanager
def _inlined_functions() -> Iterator[None]:
    """Trace through inner functions: Keras compiles a grouped convolution into one, which tf2onnx cannot look
    into.
    """
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)


def _rewrite_erfc(graph: onnx.GraphProto) -> None:
    """Write erfc(x), of which Keras makes its exact GELU, as 1 - erf(x): ONNX has the latter only."""
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        if node.op_type == "Erfc" and node.domain in ("", "ai.onnx"):
            if not any(tensor.name == _ONE for tensor in graph.initializer):
                graph.initializer.append(onnx.numpy_helper.from_array(np.array(1, np.float32), _ONE))
            erf = f"{node.output[0]}:erf"
            nodes.append(onnx.helper.make_node("Erf", [node.input[0]], [erf], name=f"{node.name}:erf"))
            nodes.append(onnx.helper.make_node("Sub", [_ONE, erf], [node.output[0]], name=node.name))
        else:
            nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(nodes)


def _require_known_operators(graph: onnx.ModelProto) -> None:
    """tf2onnx leaves a TensorFlow operator it cannot translate in the graph, under its own name."""
    for node in graph.graph.node:
        if node.domain in ("", "ai.onnx") and not onnx.defs.has(node.op_type):
            raise UserError(
                f"the operation {node.op_type} ({node.name}) has no ONNX form. Replace that layer, or export"
                " the model to ONNX yourself."
            )


def _store_captured(graph: onnx.GraphProto, concrete: Any) -> None:
    """Turn constants that the traced function captured, which tf2onnx leaves as inputs, into initializers:
    the mean of a Normalization layer, say.
    """
    inputs = {value.name for value in graph.input}
    captured = concrete.captured_inputs
    for placeholder, tensor in zip(
        concrete.inputs[len(concrete.inputs) - len(captured) :], captured, strict=True
    ):
        if placeholder.name in inputs and tensor.dtype != tf.resource:
            graph.initializer.append(onnx.numpy_helper.from_array(tensor.numpy(), placeholder.name))


def _store(graph: onnx.ModelProto, opened: Sequence[Any]) -> None:
    """Turn the kernel inputs into initializers that carry the variables' own paths."""
    names: dict[str, str] = {}
    for index, variable in enumerate(opened):
        unique = variable.path if variable.path not in names.values() else f"{variable.path}#{index}"
        names[f"kernel{index}"] = unique
        graph.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(variable), unique))
    for node in graph.graph.node:
        for i, value in enumerate(node.input):
            node.input[i] = names.get(value, value)
    images = next(value for value in graph.graph.input if value.name == _INPUT)
    del graph.graph.input[:]
    graph.graph.input.append(images)
