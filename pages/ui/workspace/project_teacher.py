"""The teacher in a stranger's project: read again as any uploaded file is, behind limits.

Knows which files of a project describe a teacher. A project says of its graph what it likes, and later steps
believe it: that it was imported here once, reaches for no other file and costs what it cost then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.teacher.facts import facts_of, read_facts
from engine.teacher.guarded import load_guarded
from engine.teacher.request import LoadRequest
from engine.types import Preprocessing, TeacherFacts, UserError
from pages.ui.workspace.folder import AS_READ, read_json, write_bytes, write_json

OUTLINE, GRAPH = "outline.json", "teacher.onnx"
_WRONG = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


def read_again(home: Path, max_bytes: int) -> None:
    """Import the project's graph anew and leave what came out of it; an honest one comes out as it went in.

    Raises UserError if the graph is refused, or is not what the project says of it.
    """
    if (as_read := read_json(home / AS_READ)) is not None:
        write_json(home / AS_READ, portable(as_read))
    known = _outline(home)
    if known is None or not (home / GRAPH).exists():
        (home / GRAPH).unlink(missing_ok=True)  # nothing says what it is
        return
    found = load_guarded(
        home / GRAPH, preprocessing=known.preprocessing, class_names=known.class_names, max_bytes=max_bytes
    )
    if (found.kernels, found.output, found.n_classes) != (known.kernels, known.output, known.n_classes):
        raise UserError("the project's teacher is not the one it describes. It is refused.")
    write_bytes(home / GRAPH, found.graph)
    stated = replace(found, name=known.name, source=known.source, notes=known.notes)
    write_json(home / OUTLINE, facts_of(stated))


def _outline(home: Path) -> TeacherFacts | None:
    facts = read_json(home / OUTLINE)
    try:
        known = None if facts is None else read_facts(facts)
    except _WRONG:
        known = None
        (home / OUTLINE).unlink()
    if known is not None and not all(isinstance(text, str) for text in (known.name, *known.notes)):
        raise UserError("the project's outline.json is damaged. Download the project again.")
    return known


def portable(as_read: Mapping[str, Any]) -> dict[str, Any]:
    """What the teacher's file said of itself and what was stated beside it, without the place it lay in, and
    without what cannot have been said.
    """
    try:
        request = LoadRequest.from_dict({"spec": "", **as_read["stated"]})
        said = Preprocessing.from_json(as_read["preprocessing"]).to_json()
    except (*_WRONG, UserError):
        return {}
    stated = request.to_dict()
    if str(request.spec).partition(":")[0] not in ("sample", "timm"):
        stated.pop("spec", None)
    return {"preprocessing": said, "size_is_open": as_read.get("size_is_open") is True, "stated": stated}
