"""The house: which files stand where, who may import whom, and that every module says what it knows.

`docs/architecture.md` draws the same picture. A new arrow is a decision: add it here and there, or move the
code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# Room -> the rooms it may import. `types`, `words` and the package itself (its version) are open to all.
MAY_IMPORT: dict[str, set[str]] = {
    "words": set(),
    "files": set(),
    "guard": {"files"},
    "samples": set(),
    "teacher": {"files", "guard", "samples"},
    "family": set(),
    "target": {"files", "guard"},
    "foreign": {"files", "guard", "teacher", "family", "target"},
    "predictions": {"files", "guard", "samples", "teacher", "family", "target", "foreign"},
    "rules": {"family"},
    "recommend": {"rules"},
    "decide": {"family", "rules", "recommend", "diagnose"},
    "diagnose": {"family", "rules"},
    "exports": {"files", "guard", "teacher", "family", "target", "foreign", "predictions", "decide"},
    "deploy": {"guard", "teacher", "family", "target", "foreign", "predictions", "exports"},
    "study": {"files", "family", "predictions", "rules", "recommend", "decide", "diagnose"},
    "commands": {
        *("files", "guard", "samples", "teacher", "family", "target", "foreign", "predictions", "rules"),
        *("recommend", "decide", "diagnose", "exports", "deploy", "study"),
    },
    "__main__": {"guard", "commands"},
}
STUDY_MAY_IMPORT: dict[str, set[str]] = {
    "protocol": set(),
    "tables": {"protocol"},
    "figures": {"protocol", "tables"},
    "report": {"protocol", "tables", "figures"},
}
UI_MAY_IMPORT: dict[str, set[str]] = {
    "workspace": set(),
    "show": set(),
    "jobs": {"workspace", "show"},
    "session": {"workspace", "jobs", "show"},
    "parts": {"workspace", "jobs", "session", "show"},
}
MODULES = sorted([*(ROOT / "engine").rglob("*.py"), *(ROOT / "pages").rglob("*.py"), ROOT / "app.py"])


def imports_of(path: Path) -> Iterator[str]:
    """Every module of ours that a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from engine import samples` names a module, `from engine.samples import SAMPLES` does not
            bare = node.module in ("engine", "engine.study", "pages.ui")
            yield from (f"{node.module}.{alias.name}" if bare else node.module for alias in node.names)


def rooms(path: Path, prefix: str) -> set[str]:
    return {name.split(".")[prefix.count(".")] for name in imports_of(path) if name.startswith(prefix)}


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_engine_rooms_import_only_what_lies_before_them(room: str) -> None:
    folder = ROOT / "engine" / room
    files = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    assert files
    for path in files:
        others = rooms(path, "engine.") - {room, "types", "words", "__version__"}
        assert others <= MAY_IMPORT[room], f"{path.relative_to(ROOT)} imports {others - MAY_IMPORT[room]}"


@pytest.mark.parametrize(
    ("prefix", "may"), [("engine.study.", STUDY_MAY_IMPORT), ("pages.ui.", UI_MAY_IMPORT)]
)
def test_inner_rooms_import_only_what_lies_before_them(prefix: str, may: dict[str, set[str]]) -> None:
    folder = ROOT / prefix.replace(".", "/")
    assert {path.name for path in folder.iterdir() if path.is_dir()} - {"__pycache__"} == set(may)
    for room, allowed in may.items():
        for path in (folder / room).rglob("*.py"):
            others = rooms(path, prefix) - {room}
            assert others <= allowed, f"{path.relative_to(ROOT)} imports {others - allowed}"


@pytest.mark.parametrize("allowed", [MAY_IMPORT, STUDY_MAY_IMPORT, UI_MAY_IMPORT])
def test_the_allowed_directions_have_no_cycle(allowed: dict[str, set[str]]) -> None:
    placed: set[str] = set()
    while ready := {room for room, before in allowed.items() if room not in placed and before <= placed}:
        placed |= ready
    assert placed == set(allowed)


def test_the_engine_knows_nothing_of_pages_or_streamlit() -> None:
    for path in (ROOT / "engine").rglob("*.py"):
        names = {name.split(".")[0] for name in imports_of(path)}
        assert not names & {"pages", "streamlit", "tests", "sample_models"}, path


def test_pages_do_not_go_through_the_command_line() -> None:
    for path in MODULES:
        if "engine" not in path.relative_to(ROOT).parts:
            assert "commands" not in rooms(path, "engine."), path


def test_the_corridor_is_empty() -> None:
    names = {path.name for path in (ROOT / "engine").glob("*.py")}
    assert names == {"__init__.py", "__main__.py", "types.py", "samples.py"}
    assert {path.name for path in (ROOT / "pages" / "ui").glob("*.py")} == {"__init__.py"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_knows(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))


# Where a command line is the very thing that is written, or `--` begins a CSS variable.
SPEAKS_COMMAND_LINE = {
    "engine/__main__.py",
    "engine/exports/recreate.py",  # the command that makes the file again
    "engine/exports/layout.py",  # CSS
    "engine/exports/decision_page.py",  # CSS
    "engine/study/report/evidence.py",  # the command that makes the study again
    "engine/study/report/page.py",  # CSS
}


def spoken(path: Path) -> Iterator[str]:
    """Every string literal of a file that is not a docstring."""
    tree = ast.parse(path.read_text())
    silent = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def test_the_engine_speaks_no_command_line_into_the_app() -> None:
    """A message names its option (`UserError(..., option="store")`); each front end has its own word for
    it.
    """
    for path in MODULES:
        name = str(path.relative_to(ROOT))
        if name in SPEAKS_COMMAND_LINE or name.startswith("engine/commands/"):
            continue
        options = [text for text in spoken(path) if re.search(r"(?<![\w-])--[a-z]", text)]
        assert not options, f"{name} says {options[0]!r}"
