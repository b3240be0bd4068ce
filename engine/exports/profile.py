"""Measure what a file costs to load and run: float, packed, and folded, each alone in a fresh process with
one thread.

Knows how to start the worker and read its numbers.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.exports.certificate import Profile
from engine.guard import guarded
from engine.teacher.apart import running_limits
from engine.types import Preprocessing

_SENTENCES = {
    "float": "The float teacher, for comparison.",
    "packed": (
        "The exported file as any runtime loads it: weights stay packed in memory and are unpacked at each"
        " use."
    ),
    "folded": (
        "The exported file with session.disable_quant_qdq=1: weights become float at load, faster and larger."
    ),
}
_RUNS = 7


def measure_profiles(float_file: bytes, content: bytes, preprocessing: Preprocessing) -> Iterator[Profile]:
    """Yield the profiles `float`, `packed` and `folded`. Raises UserError if a file breaks a limit of the
    process it runs in.
    """
    p = preprocessing
    shape = (p.channels, p.height, p.width) if p.layout == "NCHW" else (p.height, p.width, p.channels)
    with tempfile.TemporaryDirectory() as folder:
        for name, model in (("float", float_file), ("packed", content), ("folded", content)):
            path = Path(folder) / f"{name}.onnx"
            path.write_bytes(model)
            numbers = _run(path, name, shape)
            yield Profile(
                name=name,
                load_ms=round(numbers["load_ms"], 3),
                latency_ms=round(numbers["latency_ms"], 3),
                resident_bytes=int(numbers["resident_bytes"] or 0),
                sentence=_SENTENCES[name],
            )


def _run(path: Path, mode: str, shape: tuple[int, ...]) -> dict[str, float]:
    arguments = {"path": str(path), "mode": mode, "runs": _RUNS, "shape": shape}
    task = "engine.exports.profile_worker:profile_in_child"
    with guarded(task, arguments, subject="the model", limits=running_limits(path.stat().st_size)) as outcome:
        numbers: dict[str, float] = outcome.result
        return numbers
