"""Import a PyTorch module: one ONNX graph with every kernel under the module's own parameter name, BatchNorm
unfolded.

Knows torch and its exporter. Knows nothing of files, checkpoints or architectures.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import onnx
import torch

from engine.guard import stage
from engine.teacher.agreement import BATCHES, MistranslatedError, Reference, probe_images
from engine.teacher.batch import TRACED_BATCH, open_traced_batch
from engine.teacher.graph import Description, build_teacher, plain_preprocessing
from engine.teacher.normal_form import BATCH, OPSET
from engine.teacher.reason import reason
from engine.types import NOT_STATED, Floats, Preprocessing, Teacher, UserError

INPUT = "images"


class _Opened(torch.nn.Module):
    """A model whose weights are arguments: what enters the exporter as an input cannot be folded into a
    neighbour.
    """

    def __init__(self, model: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, images: torch.Tensor, weights: list[torch.Tensor]) -> torch.Tensor:
        given = dict(zip(self.names, weights, strict=True))
        outputs: torch.Tensor = torch.func.functional_call(self.model, given, (images,))
        return outputs


def import_module(
    model: torch.nn.Module,
    *,
    name: str,
    input_shape: tuple[int, int, int],
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    source: str = "torch",
    notes: tuple[str, ...] = (),
) -> Teacher:
    """Import a trained module that maps images (n, C, H, W) to class scores (n, K).

    `input_shape` is (C, H, W). The module is run in evaluation mode and left as it was.
    Raises UserError if it does not return one row of scores per image or uses something ONNX cannot express.
    """
    channels, height, width = input_shape
    if preprocessing is None:
        preprocessing = plain_preprocessing(channels, height, width)
        notes = (*notes, f"No preprocessing was stated: {NOT_STATED}.")
    tensors = list(model.state_dict().values())
    if any(tensor.device.type != "cpu" for tensor in tensors):
        model = copy.deepcopy(model).cpu()
    if any(tensor.is_floating_point() and tensor.dtype != torch.float32 for tensor in tensors):
        model = copy.deepcopy(model).float()
        notes = (*notes, "The weights are not all float32; they were converted to it.")
    with _evaluating(model):
        reference = _reference(model, input_shape, preprocessing)
        stage("converting the model", goes_on=True)
        description = Description(
            name=name, source=source, preprocessing=preprocessing, class_names=class_names, notes=notes
        )
        return _translate(model, input_shape, description, reference)


def _translate(
    model: torch.nn.Module,
    input_shape: tuple[int, int, int],
    description: Description,
    reference: Reference,
) -> Teacher:
    """Trace one batch size and open it afterwards; trace all sizes at once, which takes twice as long, only
    for a model that does not survive that.
    """
    try:
        # The images are never computed with: their pages stay untouched zeros, which take no memory.
        graph = _export(model, torch.zeros(TRACED_BATCH, *input_shape), any_batch=False)
        open_traced_batch(graph.graph)
        return build_teacher(graph, description, reference)
    except MistranslatedError:
        graph = _export(model, torch.zeros(2, *input_shape), any_batch=True)
        return build_teacher(graph, description, reference)


@contextlib.contextmanager
def _evaluating(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode, no gradients, no fused attention (which the exporter does not know), and one thread: a
    few images do not feed two, and on a busy machine waiting costs ten times the work. All restored
    afterwards.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    modes = {module: module.training for module in model.modules()}
    fast_path = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        for module in modes:
            module.training = False
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for module, training in modes.items():
            module.training = training


def _reference(
    model: torch.nn.Module, input_shape: tuple[int, int, int], preprocessing: Preprocessing
) -> Reference:
    """The model's answers to the images that the graph will be examined with, computed once and before the
    long part: they also show whether it takes them.
    """
    probes = probe_images(preprocessing)
    if probes[0].shape[1:] != input_shape:  # refused later, in words about the preprocessing
        probes = [np.zeros((n, *input_shape), np.float32) for n in BATCHES]
    answers = {len(images): _scores(model, torch.from_numpy(images)) for images in probes}
    return lambda images: answers[len(images)]


def _scores(model: torch.nn.Module, images: torch.Tensor) -> Floats:
    try:
        outputs = model(images)
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        raise UserError(
            f"the model does not accept {len(images)} images of shape {tuple(images.shape[1:])}:"
            f" {_cause(error)}."
        ) from error
    if not isinstance(outputs, torch.Tensor):
        raise UserError(
            f"the model returns a {type(outputs).__name__}; a teacher returns one tensor (batch, classes). "
            "Wrap it so that only the class scores are returned."
        )
    scores: Floats = outputs.detach().numpy()
    return scores


def _export(model: torch.nn.Module, images: torch.Tensor, *, any_batch: bool) -> onnx.ModelProto:
    # Every parameter with two or more axes enters as an input, not only those of Conv and Linear modules: a
    # kernel used through torch.nn.functional is then found too. Which of them are kernels is read off the
    # graph afterwards.
    opened = {name: value for name, value in model.named_parameters() if value.ndim >= 2}
    names = list(opened)
    wrapper = _Opened(model, names)
    wrapper.training = False  # not .eval(), which the module of an exported program refuses
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                wrapper,
                (images, list(opened.values())),
                input_names=[INPUT, *names],
                opset_version=OPSET,
                dynamic_shapes=({0: torch.export.Dim(BATCH)}, [None] * len(names)) if any_batch else None,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        raise UserError(f"the model cannot be expressed as an ONNX graph: {_cause(error)}.") from error
    assert program is not None
    graph = program.model_proto
    graph.graph.initializer.extend(
        onnx.numpy_helper.from_array(value.detach().numpy(), name) for name, value in opened.items()
    )
    return graph


def _cause(error: BaseException) -> str:
    """The innermost cause: the exporter wraps the message that matters in pages of advice."""
    while error.__cause__ is not None:
        error = error.__cause__
    return reason(error)
