"""The documents agree with the code: links lead somewhere, named files exist, the drawing is the house, every
rule and command is described, and the README stays short.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.__main__ import COMMANDS
from engine.decide.choose import METHODS
from tests.test_house import MAY_IMPORT, STUDY_MAY_IMPORT, UI_MAY_IMPORT

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "sample_models" / "README.md"])
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
_PATH = re.compile(r"`((?:engine|pages|tests|docs|sample_models)/[\w./-]*\w/?)`")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in _LINK.findall(path.read_text()):
        if target.startswith(("http://", "https://")):
            continue
        found = (path.parent / target).resolve() if target else path
        assert found.exists(), f"{path.name} links to {target}, and there is no such file"
        assert not anchor or anchor in anchors(found), f"{path.name} links to {target}#{anchor}"


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name != "CHANGELOG.md"], ids=name_of)
def test_named_files_exist(path: Path) -> None:
    for named in _PATH.findall(path.read_text()):
        assert (ROOT / named).exists(), f"{path.name} names {named}, and there is no such file"


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= 900


@pytest.mark.parametrize(
    ("head", "allowed"),
    [("engine/", MAY_IMPORT), ("engine/study/", STUDY_MAY_IMPORT), ("pages/ui/", UI_MAY_IMPORT)],
)
def test_the_drawing_is_the_house(head: str, allowed: dict[str, set[str]]) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition(f"| room of `{head}` |")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    drawn = {room.strip("`"): {name for name in may.split(", ") if name} for room, _, may in rows}
    assert drawn == allowed


def test_every_rule_and_command_is_described() -> None:
    rules = (ROOT / "docs" / "rules.md").read_text()
    assert not [method for method in METHODS if f"`{method}`" not in rules]
    contracts = (ROOT / "docs" / "contracts.md").read_text()
    assert f"`{'|'.join(COMMANDS)}`" in contracts


def test_every_release_has_its_date() -> None:
    heads = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert all(re.fullmatch(r"\d+\.\d+\.\d+ - (\d{4}-\d\d-\d\d|unreleased)", head) for head in heads)
