"""`python -m engine label-next`: the JSON contract, the words, and the inputs it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.__main__ import main
from engine.predictions.file import load_predictions, save_predictions
from tests.synthetic_family import synthetic_predictions


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("label_next") / "family.npz"
    save_predictions(synthetic_predictions(labeled=False), path)
    return path


def test_json_names_rows_contenders_and_doubt(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    teacher = load_predictions(file).teacher[:12]
    given = teacher.argmax(axis=1)
    planted = int(np.argmax(teacher.max(axis=1)))  # where the teacher is surest, its least likely class
    given[planted] = teacher[planted].argmin()
    labels.write_text("row,label\n" + "".join(f"{row},{label}\n" for row, label in enumerate(given)))
    assert (
        main(["label-next", str(file), "--labels", str(labels), "-k", "7", "--budget", "0.3", "--json"]) == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert len(set(result["rows"])) == 7
    assert not set(result["rows"]) & set(range(12))
    assert result["n_labels"] == 12
    assert result["pick"]
    assert result["contenders"]
    assert 1 <= result["worth"] < 5
    assert result["expected_regret"] >= 0
    assert [entry["row"] for entry in result["check"]] == [planted]
    assert {"row", "label", "probability", "likely", "pick_without"} <= set(result["check"][0])


def test_works_before_any_label_and_in_words(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["label-next", str(file), "-k", "3"]) == 0
    assert capsys.readouterr().out.startswith("label next: ")


def test_refusals_are_one_line(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["label-next", str(file), "-k", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err
    assert main(["label-next", str(file), "--seed", "-1"]) == 2
    assert "from 0" in capsys.readouterr().err
    single = synthetic_predictions(labeled=False)
    alone = replace(
        single,
        candidates=single.candidates[:1],
        names=single.names[:1],
        cost=None,
        candidates_test=None,
        teacher_test=None,
        labels_test=None,
    )
    save_predictions(alone, tmp_path / "alone.npz")
    assert main(["label-next", str(tmp_path / "alone.npz")]) == 2
    assert "only candidate" in capsys.readouterr().err
    full = tmp_path / "full.npz"
    save_predictions(synthetic_predictions(n_images=30), full)
    assert main(["label-next", str(full)]) == 2
    message = capsys.readouterr().err
    assert "nothing left" in message
    assert message.count("\n") == 1
