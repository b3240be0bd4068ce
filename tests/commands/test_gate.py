"""`python -m engine gate`: exit codes, the JSON contract, and the inputs it refuses."""

import json
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.predictions.file import load_predictions, save_predictions
from tests.families import random_family


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gate") / "family.npz"
    save_predictions(random_family(3, n_images=400), path)
    return path


@pytest.mark.parametrize(("candidate", "max_drop", "code"), [("7", "0.02", 0), ("0", "0.02", 1)])
def test_a_pipeline_reads_the_exit_code(
    file: Path, candidate: str, max_drop: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last candidate is the teacher itself; the first has collapsed to one class."""
    asked = ["gate", str(file), "--candidate", candidate, "--max-drop", max_drop]
    assert main([*asked, "--json"]) == code
    result = json.loads(capsys.readouterr().out)
    assert result["status"] == ("holds" if code == 0 else "fails")
    assert result["index"] == int(candidate)
    assert result["drop"]["low"] <= result["drop"]["estimate"] <= result["drop"]["high"]
    assert [entry["label"] for entry in result["per_class"]] == [0, 1, 2, 3]
    assert sum(entry["drop"]["n"] for entry in result["per_class"]) == result["n_labels"] == 200
    assert main(asked) == code
    assert capsys.readouterr().out.startswith("Signed off" if code == 0 else "Not signed off")


def test_too_few_labels_say_how_many_more(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, family = tmp_path / "labels.csv", load_predictions(file)
    labels.write_text("row,label\n" + "".join(f"{row},{family.labels[row]}\n" for row in range(12)))
    asked = ["gate", str(file), "--candidate", family.names[5], "--max-drop", "0.1", "--labels", str(labels)]
    assert main([*asked, "--label-trust", "checked", "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["status"], result["trust"]) == ("unknown", "checked")
    assert result["more_labels"] > 0
    assert f"about {result['more_labels']} more labels" in result["statement"]


@pytest.mark.parametrize(
    "options",
    [
        ["--candidate", "nobody"],
        ["--candidate", "99"],
        ["--max-drop", "-1"],
        ["--confidence", "1.5"],
        ["--metric", "beauty"],
        ["--against", "all"],
        ["--label-trust", "blind"],
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    file: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gate", str(file), "--candidate", "0", "--max-drop", "0.1", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
