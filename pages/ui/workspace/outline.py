"""A teacher without its weights: everything the pages show and the costs need, small enough for a JSON
file.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from engine.types import Kernel, Preprocessing, Teacher


def outline_of(teacher: Teacher) -> dict[str, Any]:
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


def teacher_outline(facts: dict[str, Any]) -> Teacher:
    """Rebuild a Teacher that can be described and costed but not run: its weights are zeros that take no
    memory.
    """
    kernels = tuple(
        Kernel(k["name"], tuple(k["shape"]), tuple(k["axes"]), k["op"], k["groups"]) for k in facts["kernels"]
    )
    return Teacher(
        name=facts["name"],
        source=facts["source"],
        graph=b"",
        kernels=kernels,
        weights={kernel.name: np.broadcast_to(np.float32(0), kernel.shape) for kernel in kernels},
        preprocessing=Preprocessing.from_json(facts["preprocessing"]),
        class_names=tuple(facts["class_names"]),
        output=facts["output"],
        float_bytes=facts["float_bytes"],
        notes=tuple(facts["notes"]),
    )
