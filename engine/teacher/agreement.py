"""Run an imported graph on random images, compare it with its source, and tell what its output means.

Knows onnxruntime and probabilities. Knows nothing of frameworks or files.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from engine.guard import stage
from engine.teacher.graph_bounds import every_node
from engine.teacher.kernels import GraphView
from engine.teacher.runtime import open_session, run
from engine.types import Floats, Preprocessing, UserError

# preprocessed images in, the source framework's raw outputs (n, K) out
Reference = Callable[[NDArray[np.float32]], Floats]

MAX_PROBABILITY_DIFFERENCE = 1e-4
# An untrained model predicts nearly the same for everything, so probabilities alone would not notice a wrong
# graph.
MAX_RELATIVE_DIFFERENCE = 1e-2
# Large scores turn rounding into probability: then the limit follows what the float graph differs from itself
# when it is computed in another order. Two frameworks differ more than two orders of one of them, hence the
# factor; a wrong operator shows in the raw scores, whose limit becomes ten times stricter in exchange.
NOISE_FACTOR = 5.0
MAX_RAISED_DIFFERENCE = 1e-2
MAX_RAISED_RELATIVE_DIFFERENCE = 1e-3
BATCHES = (2, 3)  # two sizes, neither one: a batch size of one hides a batch that was fixed
_LONGEST_LOOP = 0.5  # processor seconds an image; recurrent networks take milliseconds
_PASSING = ("Identity", "Cast", "Reshape", "Flatten", "Squeeze")


class MistranslatedError(UserError):
    """The graph does not do what its source does. Another way of writing it down may."""


@dataclass(frozen=True)
class Verdict:
    """What running the graph showed: number of classes, kind of output, and the sentences that say so."""

    n_classes: int
    output: Literal["logits", "probabilities"]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Comparison:
    """The same batches through the imported graph and through its source: raw outputs, one (n, K) a batch."""

    images: Sequence[NDArray[np.float32]]
    outputs: Sequence[Floats]
    expected: Sequence[Floats]

    @property
    def difference(self) -> float:
        """The largest difference in probability."""
        return max(map(_probability_difference, self.outputs, self.expected))

    @property
    def relative(self) -> float:
        """The largest difference of a raw output, relative to the largest raw output of its batch."""
        return max(
            float(np.abs(got - want).max() / max(1.0, np.abs(want).max()))
            for got, want in zip(self.outputs, self.expected, strict=True)
        )


def random_images(n: int, preprocessing: Preprocessing, seed: int) -> NDArray[np.float32]:
    """Random pixels, preprocessed: (n, C, H, W) or (n, H, W, C) float32, in the range real images would
    have.
    """
    generator = np.random.default_rng(seed)
    pixels = generator.integers(
        0, 256, (n, preprocessing.height, preprocessing.width, preprocessing.channels)
    )
    images = (pixels * preprocessing.scale - np.array(preprocessing.mean)) / np.array(preprocessing.std)
    if preprocessing.layout == "NCHW":
        images = images.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(images, np.float32)


def probe_images(preprocessing: Preprocessing) -> list[NDArray[np.float32]]:
    """The batches that `examine` runs; no two have the same size."""
    return [random_images(n, preprocessing, seed) for seed, n in enumerate(BATCHES)]


def examine(model: onnx.ModelProto, preprocessing: Preprocessing, reference: Reference | None) -> Verdict:
    """Check `model` on random images against `reference` (None: there is nothing to compare with) and judge
    its output.

    Raises UserError if it does not run at two batch sizes, does not return (batch, K >= 2), or disagrees with
    its source.
    """
    stage("running the model on random images", goes_on=True)
    session = open_session(model.SerializeToString())
    images, started = probe_images(preprocessing), time.thread_time()
    try:
        outputs = [run(session, batch) for batch in images]
    except UserError as error:
        raise MistranslatedError(str(error)) from error
    _require_brief_loops(model, (time.thread_time() - started) / sum(BATCHES))
    for batch, output in zip(images, outputs, strict=True):
        _require_class_scores(output, len(batch))
        _require_repeatable(output, run(session, batch))
    notes: tuple[str, ...] = ()
    if reference is not None:
        expected = [np.asarray(reference(batch)) for batch in images]
        _require_equal_shapes(outputs, expected)
        notes = _require_agreement(_Comparison(images, outputs, expected), model)
    verdict = _judge(model.graph, np.concatenate(outputs))
    return replace(verdict, notes=(*verdict.notes, *notes))


def _require_brief_loops(model: onnx.ModelProto, seconds: float) -> None:
    """A loop may take long for each image of a run and never break the limit of a batch."""
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    loops = [node.op_type for node in every_node(nodes) if node.op_type in ("Loop", "Scan")]
    if loops and seconds > _LONGEST_LOOP:
        raise UserError(
            f"the model takes {seconds:.1f} s for an image and has a {loops[0]}; a classifier's loops end"
            f" within {_LONGEST_LOOP:g} s.",
            "Export it without loops.",
        )


def softmax(logits: Floats) -> Floats:
    """Row-wise softmax in float64."""
    shifted = np.exp(np.asarray(logits, np.float64) - logits.max(axis=-1, keepdims=True))
    result: Floats = shifted / shifted.sum(axis=-1, keepdims=True)
    return result


def _require_class_scores(outputs: Floats, n: int) -> None:
    if outputs.ndim != 2 or outputs.shape[0] != n:
        raise UserError(
            f"the model returns shape {outputs.shape} for {n} images; a teacher returns one row of class"
            f" scores per image, ({n}, classes). Export a classifier, with its pooling and head."
        )
    if outputs.dtype.kind not in "fiu":
        raise UserError(
            f"the model returns {outputs.dtype} values; a teacher returns numbers, one score per class.",
            "Export a classifier, with its head.",
        )
    if outputs.shape[1] < 2:
        raise UserError(
            "the model returns one number per image; a teacher needs at least 2 classes. Give it a two-class"
            " softmax head."
        )
    if not np.isfinite(outputs).all():
        raise UserError(
            "the model returns values that are not finite on random images. Check its weights and the stated"
            " preprocessing."
        )


def _require_repeatable(outputs: Floats, again: Floats) -> None:
    """One thread computes the same bytes twice; a model that does not draws random numbers or keeps a
    state.
    """
    if outputs.shape != again.shape or outputs.tobytes() != again.tobytes():
        raise UserError(
            "the model answers the same images differently when it is run twice; judging needs one answer.",
            "Export it for inference, without random operators.",
        )


def _require_equal_shapes(outputs: Sequence[Floats], expected: Sequence[Floats]) -> None:
    for got, want in zip(outputs, expected, strict=True):
        if got.shape != want.shape:
            raise MistranslatedError(
                f"the imported graph returns shape {got.shape} where the source model returns {want.shape}."
            )


def _require_agreement(compared: _Comparison, model: onnx.ModelProto) -> tuple[str, ...]:
    """Refuse a graph that differs from its source by more than rounding; return what there is to say if
    not.
    """
    difference, relative = compared.difference, compared.relative
    if difference < MAX_PROBABILITY_DIFFERENCE and relative < MAX_RELATIVE_DIFFERENCE:
        return ()
    noise = _own_noise(compared, model)
    limit = min(MAX_RAISED_DIFFERENCE, max(MAX_PROBABILITY_DIFFERENCE, NOISE_FACTOR * noise))
    if difference < limit and relative < MAX_RAISED_RELATIVE_DIFFERENCE:
        return (
            (
                f"The graph agrees with its source to {difference:.1g} in probability ({relative:.1g} in raw"
                f" output). The usual limit is {MAX_PROBABILITY_DIFFERENCE:g}; it was raised to {limit:.1g}"
                f" because the float graph differs from itself by {noise:.1g} when it is computed in another"
                " order."
            ),
        )
    operators = ", ".join(
        name for name, _ in Counter(node.op_type for node in model.graph.node).most_common()
    )
    raise MistranslatedError(
        f"the imported graph disagrees with the source model by {difference:.2g} in probability"
        f" ({relative:.2g} in raw output; the graph differs from itself by {noise:.2g}). One of its operators"
        f" ({operators}) is not translated exactly; export the model to ONNX yourself and load that file."
    )


def _own_noise(compared: _Comparison, model: onnx.ModelProto) -> float:
    """How far the graph's probabilities move when nothing changes but the order of its sums: without
    onnxruntime's fusions, and one image at a time.
    """
    session = open_session(model.SerializeToString(), optimised=False)
    alone = [
        np.concatenate([run(session, batch[i : i + 1]) for i in range(len(batch))])
        for batch in compared.images
    ]
    return max(map(_probability_difference, compared.outputs, alone))


def _probability_difference(one: Floats, other: Floats) -> float:
    return float(np.abs(_as_probabilities(one) - _as_probabilities(other)).max())


def _as_probabilities(outputs: Floats) -> Floats:
    return outputs if _rows_sum_to_one(outputs) else softmax(outputs)


def _rows_sum_to_one(outputs: Floats) -> bool:
    return bool((outputs >= 0).all() and np.allclose(outputs.sum(axis=1), 1.0, atol=1e-3))


def _last_operator(graph: onnx.GraphProto) -> str:
    """The operator that makes the output, looking through those that only pass it on."""
    view = GraphView(graph)
    node = view.producers.get(graph.output[0].name)
    while node is not None and node.op_type in _PASSING:
        node = view.producers.get(node.input[0])
    return "" if node is None else str(node.op_type)


def _judge(graph: onnx.GraphProto, outputs: Floats) -> Verdict:
    last, sums_to_one, n_classes = _last_operator(graph), _rows_sum_to_one(outputs), outputs.shape[1]
    if last == "Softmax" and sums_to_one:
        return Verdict(
            n_classes,
            "probabilities",
            ("The model ends in a softmax; its outputs are used as probabilities.",),
        )
    if last == "LogSoftmax":
        return Verdict(
            n_classes,
            "logits",
            ("The model ends in a log-softmax; a softmax turns it back into the same probabilities.",),
        )
    if last in ("Sigmoid", "HardSigmoid"):
        raise UserError(
            "the model ends in a sigmoid: one independent yes or no per class. A teacher chooses one class;"
            " give it a softmax head."
        )
    if last == "Softmax":
        raise UserError(
            "the model ends in a softmax over something other than the classes. Let it run over the last"
            " axis."
        )
    if sums_to_one:
        return Verdict(
            n_classes,
            "probabilities",
            ("The outputs are non-negative and sum to one; they are used as probabilities.",),
        )
    return Verdict(n_classes, "logits", ("The model returns logits; a softmax is applied to them.",))
