"""Many hostile model files in one guarded child: what became of each, so that a case costs milliseconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.guard import Child, progress, stage
from engine.teacher.load import load_teacher
from engine.teacher.request import LoadRequest
from engine.types import UserError

_LIBRARY = (RuntimeError, ValueError, TypeError, KeyError, AttributeError, IndexError, AssertionError)


def load_all(child: Child, files: Sequence[Mapping[str, Any]]) -> list[str]:
    """Load each file as a teacher; "" if it became one, else the line it was refused with."""
    said = []
    for done, stated in enumerate(files):
        stage(f"reading {Path(stated['spec']).name}")
        progress(done, len(files))
        try:
            load_teacher(LoadRequest(**stated))
        except UserError as error:
            said.append(str(error))
        except _LIBRARY as error:  # a library's own words; the parent makes them one line
            said.append(f"a library failed: {type(error).__name__}")
        else:
            said.append("")
    return said
