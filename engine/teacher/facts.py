"""A teacher as plain data: everything but its weights as JSON-ready facts, its graph as bytes; and back.

Knows a teacher's fields; the one place that writes and reads them. Runs nothing, so that what was checked
once need not be checked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from engine.types import Floats, Kernel, Preprocessing, Teacher, TeacherFacts


def facts_of(teacher: TeacherFacts) -> dict[str, Any]:
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
        "model_sha256": teacher.model_sha256,
    }


def read_facts(facts: Mapping[str, Any]) -> TeacherFacts:
    """Read back what `facts_of` returned; facts written before there was a hash have none."""
    return TeacherFacts(
        name=facts["name"],
        source=facts["source"],
        kernels=tuple(
            Kernel(
                name=kernel["name"],
                shape=tuple(kernel["shape"]),
                axes=tuple(kernel["axes"]),
                op=kernel["op"],
                groups=kernel["groups"],
            )
            for kernel in facts["kernels"]
        ),
        preprocessing=Preprocessing.from_json(facts["preprocessing"]),
        class_names=tuple(facts["class_names"]),
        output=facts["output"],
        float_bytes=facts["float_bytes"],
        notes=tuple(facts["notes"]),
        model_sha256=facts.get("model_sha256", ""),
    )


def with_weights(facts: TeacherFacts, graph: bytes, weights: Mapping[str, Floats]) -> Teacher:
    """Return the teacher that the facts describe, ready to run."""
    known = {field.name: getattr(facts, field.name) for field in fields(TeacherFacts)}
    return Teacher(**known, graph=graph, weights=weights)


def teacher_of(facts: Mapping[str, Any], graph: bytes) -> Teacher:
    """Rebuild a teacher from its facts and its graph: same bytes, same fingerprint."""
    import onnx  # pages that only describe a teacher do without it

    from engine.teacher.graph import stored_weights

    known = read_facts(facts)
    return with_weights(known, graph, stored_weights(onnx.ModelProto.FromString(graph).graph, known.kernels))


def identity_of(teacher: TeacherFacts) -> dict[str, Any]:
    """Name the teacher in a certificate: enough to recognise it, too little to cost it."""
    return {
        "name": teacher.name,
        "source": teacher.source,
        "fingerprint": teacher.fingerprint,
        "n_classes": teacher.n_classes,
        "n_kernels": len(teacher.kernels),
    }
