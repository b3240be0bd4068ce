"""Load a stranger's model file in a guarded child process; the teacher comes back as plain bytes and JSON.

Knows which specs name a file. Reading the formats is `load`'s work, in the child.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from engine.guard import Child, guarded, limits_for
from engine.guard.run import OnReport
from engine.teacher.cache import entry_path, read_entry, write_entry
from engine.teacher.facts import facts_of, teacher_of
from engine.teacher.load import Stated, load_teacher, request_of
from engine.teacher.request import LoadRequest
from engine.types import Teacher

_GRAPH = "graph.onnx"
_TRUSTED = ("sample", "timm")  # files that ship with us, and names of public weights: no stranger's file


def load_once(spec: str | Path | LoadRequest, *, store: Path, **stated: Unpack[Stated]) -> Teacher:
    """Load a teacher as `load_guarded` does, from `store` if the same file was loaded before with the same
    options; keep it there if not.
    """
    request = request_of(spec, stated)
    entry = entry_path(store, request)
    known = None if entry is None else read_entry(entry, request.max_bytes)
    if known is not None:
        return known
    teacher = load_guarded(request)
    # Public weights may have been downloaded just now: only then is their content known.
    entry = entry_path(store, request)
    if entry is not None:
        write_entry(entry, teacher, request.spec)
    return teacher


def load_guarded(
    spec: str | Path | LoadRequest, *, on_report: OnReport | None = None, **stated: Unpack[Stated]
) -> Teacher:
    """Load a teacher as `load_teacher` does (same arguments), a file in a child process with limits.

    Raises UserError with what the file was refused for, or how the child ended.
    """
    request = request_of(spec, stated)
    if request.spec.partition(":")[0] in _TRUSTED:
        return load_teacher(request)
    path = Path(request.spec).expanduser()
    absolute = replace(request, spec=str(path.absolute()) if request.spec.strip() else "")
    with guarded(
        "engine.teacher.guarded:load_in_child",
        absolute.to_dict(),
        subject=path.name,
        limits=limits_for("import"),
        on_report=on_report,
    ) as outcome:
        return teacher_of(outcome.result, (outcome.folder / _GRAPH).read_bytes())


def load_in_child(child: Child, **stated: Any) -> dict[str, Any]:
    """The child's part of `load_guarded`: load, and leave the graph beside what is known about it."""
    teacher = load_teacher(LoadRequest.from_dict(stated))
    (child.folder / _GRAPH).write_bytes(teacher.graph)
    return facts_of(teacher)
