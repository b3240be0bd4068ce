"""Run a graph where it may do no harm: here if it does the same work for every image, else in a child with
limits that stays.

Knows onnxruntime's and onnx's ways to run a graph, and what travels to the child and back. Knows nothing of
what the answers mean.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from engine.guard import Answer, Fallen, Limits, Part, Pool, is_limited, limits_for
from engine.teacher.runtime import FAILURES
from engine.types import UserError

LEVELS = {
    "disabled": ort.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
}
FOLDED = "session.disable_quant_qdq"  # onnxruntime's switch for folding packed weights to float at load

_FAILURES: tuple[type[Exception], ...] = (*FAILURES, NotImplementedError)
_COPIES = 6  # of a model in a child: as sent, its parts, onnxruntime's, those it repacks or folds
_ROOM = 1_500_000_000
_PATIENCE = 3.0  # of a batch that is judged: here it has more images, or onnx's own slow evaluator

Run = Callable[[Sequence[str] | None, NDArray[np.float32]], list[NDArray[Any]]]
Kernels = Mapping[str, NDArray[np.float32]]


class UnrunnableError(UserError):
    """The model itself cannot be run on these images: trying it again in another form is of no use."""


@dataclass(frozen=True)
class Way:
    """How a graph is run: onnxruntime's optimization level, packed weights `folded` to float when it is
    opened, `all_threads` or one; or by onnx's own evaluator, written to be right and slow.
    """

    level: str = "all"
    folded: bool = False
    all_threads: bool = False
    reference: bool = False

    def options(self) -> ort.SessionOptions:
        """Return onnxruntime's options for it, quiet."""
        made = ort.SessionOptions()
        made.graph_optimization_level = LEVELS[self.level]
        made.log_severity_level = 4
        if not self.all_threads:
            made.intra_op_num_threads = made.inter_op_num_threads = 1
        if self.folded:
            made.add_session_config_entry(FOLDED, "1")
        return made


def opened(graph: bytes, way: Way, kernels: Kernels | None = None) -> Run:
    """Open a graph, with `kernels` for the initializers it leaves out; return what runs it: names of the
    values wanted (None: its outputs) and a batch in, arrays out.

    Raises one of `FAILURES` with the runtime's words, then and at every run; UnrunnableError if a run breaks
    a limit of the child.
    """
    if is_limited() or _is_steady(graph):
        return _open_here(graph, way, dict(kernels or {}))
    return _Apart(graph, way, kernels or {}).run


def _is_steady(graph: bytes) -> bool:
    from engine.teacher.steady import is_steady  # needs onnx, which a worker need not have

    return is_steady(graph)


def _open_here(graph: bytes, way: Way, kernels: dict[str, NDArray[np.float32]]) -> Run:
    if way.reference:
        from onnx import ModelProto
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(ModelProto.FromString(graph))
        return lambda names, images: list(evaluator.run(names, {evaluator.input_names[0]: images}))
    options = way.options()
    # onnxruntime borrows these arrays' memory: they must live as long as the session
    held = {
        name: ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array)) for name, array in kernels.items()
    }
    if held:
        options.add_external_initializers(list(held), list(held.values()))
    session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0].name

    def run(names: Sequence[str] | None, images: NDArray[np.float32], _held: object = held) -> list[Any]:
        return list(session.run(names, {entry: images}))

    return run


# --- the parent's side ----------------------------------------------------------------------


def running_limits(n_bytes: int) -> Limits:
    """Return what a child may use that runs a model of `n_bytes`: the model as sent and as opened, and room
    to compute.
    """
    gigabytes = math.ceil((_COPIES * n_bytes + _ROOM) / 10**9)  # whole ones, so that models share a child
    memory = max(limits_for("import").memory, gigabytes * 10**9)
    limits = limits_for("judge", memory=memory, n_bytes=n_bytes)
    return replace(limits, seconds=_PATIENCE * limits.seconds)


@cache
def _pool(limits: Limits) -> Pool:
    return Pool("engine.teacher.apart:answer_in_child", limits, "running it on these images")


class _Apart:
    """A graph that is open in a child; opened again where the child is a new one."""

    def __init__(self, graph: bytes, way: Way, kernels: Kernels) -> None:
        arrays = {name: np.ascontiguousarray(array, np.float32) for name, array in kernels.items()}
        shapes = {name: array.shape for name, array in arrays.items()}
        content = b"".join((graph, *(array.tobytes() for array in arrays.values())))
        facts = {"way": asdict(way), "graph": len(graph), "kernels": shapes}
        self._key = hashlib.sha256(json.dumps(facts).encode() + content).hexdigest()
        self._open = Part({"key": self._key, "opening": facts}, content)
        self._pool = _pool(running_limits(len(content)))
        _said(self._pool.ask([self._open])[0])

    def run(self, names: Sequence[str] | None, images: NDArray[np.float32]) -> list[NDArray[Any]]:
        """Return the named values, or the outputs, for a batch."""
        wanted = {"names": None if names is None else list(names), "shape": images.shape}
        part = Part({"key": self._key, "running": wanted}, np.ascontiguousarray(images, np.float32).tobytes())
        answer = _said(self._pool.ask([part])[0])
        if answer.facts["arrays"] is None:  # this child has another graph open, or none
            answer = [_said(each) for each in self._pool.ask([self._open, part])][1]
        return _arrays(answer)


def _said(answer: Answer | UserError | Fallen) -> Answer:
    if isinstance(answer, Fallen):
        raise UnrunnableError(
            f"the model was stopped: {answer.reason}.",
            "Check the model file; if it is truly that large, raise ANCHORPOINT_JUDGE_SECONDS or"
            " ANCHORPOINT_JUDGE_MEMORY_GB.",
        )
    if isinstance(answer, UserError):
        raise RuntimeError(str(answer))  # the runtime's own words, for who knows what was run
    return answer


def _arrays(answer: Answer) -> list[NDArray[Any]]:
    found, start = [], 0
    for dtype, shape in answer.facts["arrays"]:
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        found.append(np.frombuffer(answer.content[start : start + size], dtype).reshape(shape))
        start += size
    return found


# --- the child's side -----------------------------------------------------------------------

_open: dict[str, Run] = {}  # at most one, by key: two at once would need twice the memory


def answer_in_child(
    content: bytes, key: str, opening: dict[str, Any] | None = None, running: dict[str, Any] | None = None
) -> tuple[dict[str, Any], bytes]:
    """Open a graph, or run the open one on a batch; "arrays" is None if another is open. Raises UserError
    with the runtime's words.
    """
    try:
        if opening is not None:
            _open.clear()
            _open[key] = _received(content, **opening)
        if running is None or key not in _open:
            return {"arrays": None}, b""
        images = np.frombuffer(content, np.float32).reshape(running["shape"])
        made = [np.ascontiguousarray(array) for array in _open[key](running["names"], images)]
    except _FAILURES as error:
        raise UserError(str(error) or type(error).__name__) from None
    facts = [(array.dtype.str, array.shape) for array in made]
    return {"arrays": facts}, b"".join(array.tobytes() for array in made)


def _received(content: bytes, way: dict[str, Any], graph: int, kernels: dict[str, list[int]]) -> Run:
    arrays, start = {}, graph
    for name, shape in kernels.items():
        size = 4 * int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(content[start : start + size], np.float32).reshape(shape)
        start += size
    return _open_here(content[:graph], Way(**way), arrays)
