"""`--class-shares` on every command that decides: the statement reaches the answer, and a bad one is one
line.
"""

import json
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.predictions.file import save_predictions
from tests.families import random_family


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shares") / "family.npz"
    save_predictions(random_family(3, n_images=120), path)
    return path


@pytest.fixture
def shares(tmp_path: Path) -> Path:
    path = tmp_path / "shares.csv"
    path.write_text("class,share\n0,70\n1,20\n2,5\n3,5\n")
    return path


def select(file: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, object]:
    assert main(["select", str(file), "--method", "auto", "--json", *options]) == 0
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


def test_select_takes_the_statement(file: Path, shares: Path, capsys: pytest.CaptureFixture[str]) -> None:
    unknown = select(file, capsys)
    stated = select(file, capsys, "--class-shares", str(shares))
    equal = select(file, capsys, "--class-shares", "equal")
    assert [answer["class_shares"] for answer in (unknown, stated, equal)] == ["unknown", "stated", "stated"]
    assert len({tuple(answer["scores"]) for answer in (unknown, stated, equal)}) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "command",
    [
        ["gate", "--candidate", "0", "--max-drop", "0.1"],
        ["label-next", "--labels", "LABELS"],
    ],
    ids=["gate", "label-next"],
)
def test_the_other_commands_take_it_too(
    file: Path, shares: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    labels = file.with_name("labels.csv")
    labels.write_text("row,label\n" + "".join(f"{row},{row % 4}\n" for row in range(12)))
    name, *options = [str(labels) if word == "LABELS" else word for word in command]
    answers = []
    for stated in ([], ["--class-shares", str(shares)]):
        assert main([name, str(file), *options, "--json", *stated]) in (0, 1)
        answers.append(capsys.readouterr().out)
    assert answers[0] != answers[1]


def test_a_bad_statement_is_one_line(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["select", str(file), "--method", "auto", "--class-shares", "evenly"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "--class-shares" in err
    assert "class,share" in err
