"""Load a stranger's model file in a guarded child process; the teacher comes back as plain bytes and JSON.

Knows which specs name a file. Reading the formats is `load`'s work, in the child.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from engine.guard import Child, guarded, limits_for
from engine.guard.run import OnReport
from engine.teacher.facts import facts_of, teacher_of
from engine.teacher.load import MAX_BYTES, load_teacher
from engine.types import Preprocessing, Teacher

_GRAPH = "graph.onnx"
_TRUSTED = ("sample", "timm")  # files that ship with us, and names of public weights: no stranger's file


def load_guarded(
    spec: str | Path,
    *,
    preprocessing: Preprocessing | None = None,
    on_report: OnReport | None = None,
    **stated: Any,
) -> Teacher:
    """Load a teacher as `load_teacher` does (same arguments), a file in a child process with limits.

    Raises UserError with what the file was refused for, or how the child ended.
    """
    if str(spec).partition(":")[0] in _TRUSTED:
        return load_teacher(spec, preprocessing=preprocessing, **stated)
    path = Path(spec).expanduser()
    arguments = {
        "spec": str(path.absolute()) if str(spec).strip() else "",
        "preprocessing": None if preprocessing is None else preprocessing.to_json(),
        **stated,
    }
    with guarded(
        "engine.teacher.guarded:load_in_child",
        arguments,
        subject=path.name,
        limits=limits_for("import"),
        on_report=on_report,
    ) as outcome:
        return teacher_of(outcome.result, (outcome.folder / _GRAPH).read_bytes())


def load_in_child(
    child: Child,
    spec: str,
    preprocessing: str | None,
    max_bytes: int = MAX_BYTES,
    class_names: Sequence[str] | None = None,
    size: Sequence[int] | None = None,
    arch: str | None = None,
    classes: int | None = None,
) -> dict[str, Any]:
    """The child's part of `load_guarded`: load, and leave the graph beside what is known about it."""
    teacher = load_teacher(
        spec,
        preprocessing=None if preprocessing is None else Preprocessing.from_json(preprocessing),
        max_bytes=max_bytes,
        class_names=class_names,
        size=None if size is None else (size[0], size[1]),
        arch=arch,
        classes=classes,
    )
    (child.folder / _GRAPH).write_bytes(teacher.graph)
    return facts_of(teacher)
