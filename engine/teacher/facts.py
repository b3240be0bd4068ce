"""A teacher as plain data: everything but its weights as JSON-ready facts, its graph as bytes; and back.

Knows a Teacher's fields. Runs nothing, so that what was checked once need not be checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.types import Floats, Kernel, Preprocessing, Teacher


def facts_of(teacher: Teacher) -> dict[str, Any]:
    """Describe a teacher as a JSON-ready dict: no weights, no graph."""
    return {
        "name": teacher.name,
        "source": teacher.source,
        "kernels": [asdict(kernel) for kernel in teacher.kernels],
        "preprocessing": teacher.preprocessing.to_json(),
        "class_names": list(teacher.class_names),
        "output": teacher.output,
        "float_bytes": teacher.float_bytes,
        "notes": list(teacher.notes),
    }


def teacher_of(facts: Mapping[str, Any], graph: bytes = b"") -> Teacher:
    """Rebuild a teacher from its facts and its graph: same bytes, same fingerprint.

    Without a graph it can be described and costed but not run: its weights are zeros that take no memory.
    """
    kernels = tuple(
        Kernel(k["name"], tuple(k["shape"]), tuple(k["axes"]), k["op"], k["groups"]) for k in facts["kernels"]
    )
    return Teacher(
        name=facts["name"],
        source=facts["source"],
        graph=graph,
        kernels=kernels,
        weights=_weights(graph, kernels),
        preprocessing=Preprocessing.from_json(facts["preprocessing"]),
        class_names=tuple(facts["class_names"]),
        output=facts["output"],
        float_bytes=facts["float_bytes"],
        notes=tuple(facts["notes"]),
    )


def _weights(graph: bytes, kernels: tuple[Kernel, ...]) -> Mapping[str, Floats]:
    if not graph:
        return {kernel.name: np.broadcast_to(np.float32(0), kernel.shape) for kernel in kernels}
    import onnx  # pages that only describe a teacher do without it

    from engine.teacher.graph import stored_weights

    return stored_weights(onnx.ModelProto.FromString(graph).graph, kernels)
