"""The command line contract: JSON shapes, exit codes, one clear line for every bad input."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.__main__ import main
from engine.decide.choose import METHODS, choose
from engine.predictions.file import load_predictions, save_predictions
from engine.target.labels import sample_from_array
from engine.types import UserError
from tests.families import random_arrays, random_family

KEYS = {
    "method",
    "index",
    "name",
    "coefficient",
    "grid",
    "cv_losses",
    "scores",
    "n_labels",
    "ties",
    "warnings",
}


@pytest.fixture
def family(tmp_path):
    path = tmp_path / "family.npz"
    save_predictions(random_family(5, n_images=80), path)
    return path


def run(capsys, *arguments):
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_estimate(capsys, family):
    code, out, _ = run(capsys, "estimate", family, "--json")
    rules = json.loads(out)
    assert code == 0
    assert set(rules) >= {
        "distortion",
        "highest-precision",
        "avg-confidence",
        "entropy",
        "atc-mc",
        "atc-ne",
        "doc",
        "nuclear-norm",
        "softmax-corr",
        "cot",
    }
    for verdict in rules.values():
        assert set(verdict) == {"scores", "better", "pick", "ties"}
        assert len(verdict["scores"]) == 8
    assert "distortion" in run(capsys, "estimate", family)[1]


@pytest.mark.parametrize("method", METHODS)
def test_select_every_method(capsys, family, method):
    code, out, err = run(capsys, "select", family, "--method", method, "--json")
    assert code == 0, err
    record = json.loads(out)
    assert set(record) >= KEYS
    assert record["method"] == method
    predictions = load_predictions(family)
    expected = choose(method, predictions, sample_from_array(predictions.labels))
    assert (record["index"], record["ties"]) == (expected.index, expected.ties)
    assert run(capsys, "select", family, "--method", method)[0] == 0


def test_budget_hides_expensive_candidates(capsys, family):
    code, out, _ = run(capsys, "select", family, "--method", "ce-combo", "--budget", "0.5", "--json")
    record = json.loads(out)
    assert code == 0
    allowed = load_predictions(family).cost <= 0.5
    assert [score is not None for score in record["scores"]] == allowed.tolist()
    assert allowed[record["index"]]


def test_labels_csv_by_row_and_class_name(capsys, family, tmp_path):
    (tmp_path / "rows.csv").write_text("row,label\n3,1\n0,2\n9,0\n")
    (tmp_path / "names.csv").write_text("row,label\n3,b\n0,c\n9,a\n")
    (tmp_path / "classes.txt").write_text("a\nb\nc\nd\n")
    by_row = run(capsys, "select", family, "--method", "val-ce", "--labels", tmp_path / "rows.csv", "--json")[
        1
    ]
    by_name = run(
        capsys,
        "select",
        family,
        "--method",
        "val-ce",
        "--labels",
        tmp_path / "names.csv",
        "--class-names",
        tmp_path / "classes.txt",
        "--json",
    )[1]
    assert json.loads(by_row) == json.loads(by_name)
    assert json.loads(by_row)["n_labels"] == 3


def bad_inputs(tmp_path, family):
    teacher, candidates, _ = random_arrays(0)
    np.savez(
        tmp_path / "nan.npz", teacher=teacher, candidates=np.where(candidates > 0.99, np.nan, candidates)
    )
    np.savez(tmp_path / "k.npz", teacher=teacher[:, :3], candidates=candidates)
    np.savez(tmp_path / "unlabeled.npz", teacher=teacher, candidates=candidates)
    (tmp_path / "outside.csv").write_text("row,label\n1,4\n")
    (tmp_path / "twice.csv").write_text("row,label\n1,0\n1,0\n")
    (tmp_path / "empty.csv").write_text("row,label\n")
    method = ("--method", "ce-combo")
    return [
        ("select", tmp_path / "nan.npz", *method),
        ("select", tmp_path / "k.npz", *method),
        ("select", tmp_path / "unlabeled.npz", *method),
        ("select", tmp_path / "absent.npz", *method),
        *(
            ("select", family, *method, "--labels", tmp_path / f"{name}.csv")
            for name in ("outside", "twice", "empty", "absent")
        ),
        ("select", family, "--method", "magic"),
        ("select", family, *method, "--budget", "0.01"),
        ("select", family, *method, "--budget", "lots"),
        ("select", tmp_path / "unlabeled.npz", "--method", "distortion", "--budget", "0.2"),
        ("select", family, *method, "--anchor", "moon"),
        ("select", family, *method, "--floor", "0"),
        ("select", family),
        ("estimate",),
        ("teleport",),
    ]


def test_bad_input_exits_2_with_one_line(capsys, family, tmp_path):
    for arguments in bad_inputs(tmp_path, family):
        code, out, err = run(capsys, *arguments)
        assert code == 2, arguments
        assert out == "", arguments
        assert len(err.strip().splitlines()) == 1, (arguments, err)
        assert "Traceback" not in err


@pytest.mark.parametrize(
    "sizes", [{"n_candidates": 1}, {"n_classes": 2}, {"n_images": 6, "n_classes": 9}, {"n_images": 2}]
)
def test_small_families_are_chosen_from(capsys, tmp_path, sizes):
    save_predictions(random_family(1, **sizes), tmp_path / "small.npz")
    for method in METHODS:
        code, _, err = run(capsys, "select", tmp_path / "small.npz", "--method", method, "--json")
        assert code == 0, (method, err)


def test_anchors_change_the_base(family):
    predictions = load_predictions(family)
    sample = sample_from_array(predictions.labels)
    anchors = {
        kind: choose("ce-combo", predictions, sample, anchor=kind).anchor
        for kind in ("pool", "sample", "subsample", "cot")
    }
    np.testing.assert_allclose(anchors["sample"], anchors["pool"], atol=1e-12)  # every row is labeled here
    assert anchors["cot"].min() == pytest.approx(anchors["pool"].min())
    assert anchors["cot"].max() == pytest.approx(anchors["pool"].max())
    with pytest.raises(UserError, match="unknown anchor"):
        choose("ce-combo", predictions, sample, anchor="moon")


def test_the_module_runs_and_stays_light(family):
    root = Path(__file__).parents[2]
    shown = subprocess.run(
        [sys.executable, "-m", "engine", "select", str(family), "--method", "distortion", "--json"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(shown.stdout)["name"]
    heavy = (
        "import sys, engine, engine.decide.choose, engine.commands.select; print([m for m in"
        " ('torch','tensorflow','keras','onnx','onnxruntime','streamlit','altair','timm','scipy.stats',"
        " 'scipy.optimize', 'pandas', 'ray') if m in sys.modules])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", heavy], cwd=root, capture_output=True, text=True, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_predict_starts_without_scipy():
    code = "import sys, engine.commands.predict, engine.deploy.running; print('scipy' in sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout.strip() == "False"


def test_transport_does_not_load_frameworks(family):
    code = (
        f"import sys; from engine.__main__ import main; main(['estimate', {str(family)!r}, '--json']);"
        " sys.exit('torch' in sys.modules or 'tensorflow' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, check=True
    )


def test_warnings_in_words(family):
    predictions = load_predictions(family)
    sample = sample_from_array(predictions.labels)
    few = type(sample)(sample.rows[:10], sample.labels[:10])
    assert any("10 labels are few" in w for w in choose("ce-combo", predictions, few).warnings)
    one = type(sample)(sample.rows[:1], sample.labels[:1])
    assert any("cannot be cross-validated" in w for w in choose("alignment", predictions, one).warnings)
    assert any("trusts confidence" in w for w in choose("avg-confidence", predictions).warnings)
    assert (
        any("share the best score" in w for w in choose("val-acc", predictions, few).warnings)
        or choose("val-acc", predictions, few).ties == 1
    )


def test_a_summary_says_memory_probability_and_reservations(capsys, tmp_path):
    family = str(Path(__file__).parents[2] / "sample_models" / "digits-resnet.npz")
    one, none = tmp_path / "one.csv", tmp_path / "none.npz"
    one.write_text("row,label\n" + "".join(f"{row},3\n" for row in range(30)))
    _, text, _ = run(capsys, "select", family, "--method", "auto")
    assert "14.4% of the float memory" in text
    assert re.search(r"of the best with (9\d|100)% probability", text)
    assert "runner-up b4-channel-q99," in text
    _, text, _ = run(capsys, "select", family, "--method", "auto", "--labels", one)
    assert "All 30 labels are of one class" in text
    assert "probability" not in text
    predictions = load_predictions(family)
    save_predictions(replace(predictions, labels=np.full(predictions.n_images, -1)), none)
    _, text, _ = run(capsys, "select", none, "--method", "auto", "--budget", "18%")
    assert "There are no labels" in text
    assert "b5-channel-q100" in text
    assert "in an ONNX file" in text
    assert "more than the budget of 18.0%" in text


def test_no_better_than_guessing_is_said(capsys):
    family = str(Path(__file__).parents[2] / "sample_models" / "pacs-sketch.npz")
    _, text, _ = run(capsys, "select", family, "--method", "auto", "--budget", ".22")
    assert "no better than guessing (1.95)" in text


def test_a_path_that_fails_only_when_written_is_one_line(capsys, monkeypatch, family):
    def full(*_):
        raise OSError(28, "No space left on device", "x.npz")

    monkeypatch.setattr("engine.commands.select.load_predictions", full)
    code, out, err = run(capsys, "select", family, "--method", "auto")
    assert (code, out) == (2, "")
    assert (
        err
        == "x.npz cannot be read or written (No space left on device). Check the path, its permissions and"
        " the disk.\n"
    )


def test_onnxruntime_reports_nothing_to_its_maker(tmp_path):
    """Without the setting, importing onnxruntime leaves a device id and an event store behind and opens an
    uploader.
    """
    home = {
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "PATH": os.environ["PATH"],
    }
    for code in ("import engine, onnxruntime", "import engine.exports.bundle_predict"):
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            env=home,
            check=True,
            capture_output=True,
        )
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []
