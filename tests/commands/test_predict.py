"""`python -m engine predict` end to end on a tiny ONNX teacher: files in, predictions out, one clear line for
every wrong input.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

from engine.__main__ import main
from engine.commands.progress import progress_bar
from engine.predictions.file import load_predictions
from engine.predictions.runner import ProgressReport
from engine.teacher.graph import save
from tests.tiny_teacher import tiny_teacher

NAMES = ("ant", "bee", "cat", "dog")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A teacher, 24 images in class folders, the class names, and a store shared by the tests."""
    desk = tmp_path_factory.mktemp("desk")
    save(tiny_teacher(), desk / "tiny.onnx")
    rng = np.random.default_rng(0)
    for i in range(24):
        path = desk / "images" / NAMES[i % 4] / f"{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(path)
    (desk / "names.txt").write_text("\n".join(NAMES) + "\n")
    return desk


def run(desk: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> Any:
    base = [
        "predict",
        "--teacher",
        str(desk / "tiny.onnx"),
        "--images",
        str(desk / "images"),
        "--out",
        str(desk / "out.npz"),
    ]
    assert main([*base, "--store", str(desk / "store"), "--json", *options]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out) if code == 0 else captured.err.strip().splitlines()[-1]


def test_the_standard_family_is_written(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run(desk, capsys)
    predictions = load_predictions(desk / "out.npz")
    assert predictions.n_candidates == len(record["candidates"]) == 72
    assert predictions.n_images == record["n_images"] == 24
    assert record["n_labels"] == 0
    assert (predictions.labels == -1).all()
    assert any("--labels-from-folders" in note for note in record["notes"])
    first = (desk / "out.npz").read_bytes()
    assert run(desk, capsys)["candidates"] == record["candidates"]
    assert (desk / "out.npz").read_bytes() == first


def test_a_teacher_of_two_layers_has_no_candidates_with_float_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    model = helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Conv", ["x", "conv"], ["a"], pads=[1, 1, 1, 1]),
                helper.make_node("GlobalAveragePool", ["a"], ["b"]),
                helper.make_node("Flatten", ["b"], ["c"]),
                helper.make_node("MatMul", ["c", "head"], ["y"]),
            ],
            "two",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
            [
                numpy_helper.from_array(rng.normal(size=(8, 3, 3, 3)).astype(np.float32), "conv"),
                numpy_helper.from_array(rng.normal(size=(8, 4)).astype(np.float32), "head"),
            ],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
    )
    model.ir_version = 8
    onnx.save(model, tmp_path / "two.onnx")
    np.save(tmp_path / "x.npy", rng.integers(0, 256, (12, 9, 13, 3), dtype=np.uint8))
    base = ["predict", "--teacher", str(tmp_path / "two.onnx"), "--images", str(tmp_path / "x.npy")]
    base += ["--size", "9x13", "--out", str(tmp_path / "out.npz"), "--store", str(tmp_path / "store")]
    assert main([*base, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert len(record["candidates"]) == 36
    assert not any(name.endswith("-ends") for name in record["candidates"])
    assert any("two has only two quantizable layers" in note for note in record["notes"])
    assert main([*base, "--ends", "both"]) == 2
    assert "Quantize the ends too (--ends)" in capsys.readouterr().err


def test_labels_from_folders_and_a_held_out_test_part(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = (
        "--labels-from-folders",
        "--class-names",
        str(desk / "names.txt"),
        "--test-rows",
        "8",
        "--bits",
        "4,8",
    )
    record = run(desk, capsys, *options)
    predictions = load_predictions(desk / "out.npz")
    assert (record["n_images"], record["n_test"], record["n_labels"]) == (16, 8, 16)
    assert predictions.calibration == 8
    assert predictions.files is not None
    assert predictions.class_names == NAMES
    assert [NAMES[label] for label in predictions.labels] == [
        name.split("/")[-2] for name in predictions.files
    ]
    assert predictions.labels_test is not None
    assert (
        np.bincount(predictions.labels, minlength=4) + np.bincount(predictions.labels_test, minlength=4)
    ).tolist() == [6] * 4
    assert (
        record["n_test"]
        == run(desk, capsys, *options[:3], "--test-fraction", "0.3333", "--bits", "4")["n_test"]
    )


def test_labels_from_a_csv_reach_the_right_rows(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (desk / "labels.csv").write_text("file,label\nant/00.png,ant\ncat/02.png,cat\n")
    options = ("--class-names", str(desk / "names.txt"), "--bits", "8")
    run(desk, capsys, *options, "--labels", str(desk / "labels.csv"))
    predictions = load_predictions(desk / "out.npz")
    assert predictions.files is not None
    labeled = {
        predictions.files[row]: int(predictions.labels[row])
        for row in np.flatnonzero(predictions.labels >= 0)
    }
    assert labeled == {"ant/00.png": 0, "cat/02.png": 2}
    (desk / "rows.csv").write_text("row,label\n5,3\n")
    run(desk, capsys, *options, "--labels", str(desk / "rows.csv"))
    assert load_predictions(desk / "out.npz").labels.tolist() == [3 if row == 5 else -1 for row in range(24)]


def test_a_separate_test_set(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(desk / "test.npz", images=np.full((6, 16, 16, 3), 7, np.uint8), labels=np.arange(6) % 4)
    record = run(desk, capsys, "--test-images", str(desk / "test.npz"), "--bits", "8")
    predictions = load_predictions(desk / "out.npz")
    assert record["n_test"] == 6
    assert predictions.labels_test is not None
    assert predictions.labels_test.tolist() == [0, 1, 2, 3, 0, 1]


def test_grids_lists_and_budgets(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    grid = run(
        desk, capsys, "--bits", "7", "--percentiles", "95,100", "--granularity", "channel", "--ends", "float"
    )
    assert grid["candidates"] == ["b7-channel-q95-ends", "b7-channel-q100-ends"]
    assert run(desk, capsys, "--candidates", "0,b8-channel-q100")["candidates"] == [
        "b2-tensor-q99",
        "b8-channel-q100",
    ]
    cheap = run(desk, capsys, "--budget", "25%")
    assert 0 < len(cheap["candidates"]) < 72
    assert max(cheap["cost"]) <= 0.25
    assert cheap["missing"] == []


def test_corrupt_images_are_named_then_skipped(
    desk: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(3):
        (folder / f"{i}.png").write_bytes((desk / "images/ant/00.png").read_bytes())
    (folder / "broken.png").write_bytes(b"no")
    options = ("--images", str(folder), "--bits", "8")
    assert "broken.png" in run(desk, capsys, *options, code=2)
    record = run(desk, capsys, *options, "--skip-corrupt")
    assert [bad["name"] for bad in record["skipped"]] == ["broken.png"]
    assert record["n_images"] == 3
    assert sorted(record["duplicates"][0]) == ["0.png", "1.png", "2.png"]


def test_preprocessing_can_be_stated(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = run(
        desk,
        capsys,
        "--bits",
        "8",
        "--mean",
        "0,0,0",
        "--std",
        "1,1,1",
        "--scale",
        "1",
        "--order",
        "BGR",
        "--resize",
        "20",
    )
    stated = json.loads(record["preprocessing"])
    assert (stated["mean"], stated["scale"], stated["order"], stated["resize"]) == ([0, 0, 0], 1, "BGR", 20)
    assert "the model takes" in run(desk, capsys, "--size", "20x24", "--bits", "8", code=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--images", "nowhere"), "nothing at 'nowhere'"),
        (("--teacher", "nowhere.onnx"), "no file"),
        (("--budget", "1%"), "no candidate fits"),
        (("--budget", "much"), "budget"),
        (("--bits", "4,x"), "numbers separated by commas"),
        (("--bits", "9"), "2 to 8"),
        (("--bits", "4", "--candidates", "3"), "Use one of them"),
        (("--candidates", "3,b2-tensor-q99.5-ends,99"), "0 to 71"),
        (("--workers", "0"), "at least 1"),
        (("--time-budget", "-1"), "more than 0"),
        (("--size", "big"), "224 or 192x256"),
        (("--mean", "1,2"), "one number per channel"),
        (("--test-rows", "8"), "have no label"),
        (("--test-rows", "8", "--test-fraction", "0.5"), "two ways"),
        (("--test-labels", "x.csv"), "--test-images"),
        (("--labels", "nowhere.csv"), "not a file"),
        (("--labels-from-folders",), "is not a class of this teacher"),
        (("--granularity", "lastaxis"), "Keras"),
        (("--out", "no/such/folder/x.npz"), "does not exist"),
        (("--out", ""), "--out is empty"),
        (("--out", "engine"), "is no predictions folder"),
        (("--out", "README.md/"), "that is a file"),
        (("--out", "x.txt"), "written as .npz"),
        (("--bits", ""), "e.g. 4,8"),
        (("--percentiles", "abc"), "e.g. 99.5,100"),
        (("--mean", "abc"), "e.g. 0.485"),
        (("--mean", "nan,0,0"), "finite"),
        (("--std=-1,1,1",), "above 0"),
        (("--scale", "0"), "the scale above 0"),
        (("--size", "100000"), "1 to 4096"),
        (("--seed=-1",), "from 0"),
        (("--teacher", ""), "no teacher was named"),
        (("--unknown",), "--help"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_input_ends_in_one_clear_line(
    desk: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    assert words in run(desk, capsys, *options, code=2)


def test_the_summary_is_readable(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = [
        "predict",
        "--teacher",
        str(desk / "tiny.onnx"),
        "--images",
        str(desk / "images"),
        "--out",
        str(desk / "out.npz"),
    ]
    assert main([*base, "--store", str(desk / "store"), "--bits", "8"]) == 0
    text = capsys.readouterr().out
    assert "tiny and 12 of 12 candidates on 24 images, 0 labeled" in text


@pytest.mark.slow
def test_the_real_command_prints_json_on_stdout_only(desk: Path) -> None:
    base = [
        "predict",
        "--teacher",
        str(desk / "tiny.onnx"),
        "--images",
        str(desk / "images"),
        "--out",
        str(desk / "cli.npz"),
    ]
    command = [sys.executable, "-m", "engine", *base, "--store", str(desk / "cli"), "--bits", "8", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["n_images"] == 24
    assert done.stderr == ""  # work of moments is not reported to a program


@pytest.mark.parametrize("terminal", [True, False])
def test_the_progress_bar(terminal: bool) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return terminal

    out = Stream()
    draw = progress_bar(out, quiet=0)
    for done in range(0, 1001, 5):
        draw(ProgressReport(done, 1000, 123.4, (1000 - done) / 10, "running 72 candidates"))
    text = out.getvalue()
    assert "running 72 candidates:  50%, 123 images/s, 0:50 left" in text
    assert text.endswith("\n")
    assert text.count("\n") == (1 if terminal else 11)  # elsewhere the estimate, then every tenth
    draw(ProgressReport(3, 4, 0.0, None, "building mix-0.14"))  # no images are counted
    assert "building mix-0.14:  75%" in out.getvalue().splitlines()[-1].split("]")[-1].rstrip()
    assert "images/s" not in out.getvalue().splitlines()[-1]


def test_only_long_work_is_reported_to_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal within the first minute is the only line; what will take longer says so after moments."""
    clock = iter((0.0, 1.0, 4.0, 5.0, 61.0))
    monkeypatch.setattr("engine.commands.progress.time.monotonic", lambda: next(clock))
    out = io.StringIO()
    draw = progress_bar(out)
    draw(ProgressReport(0, 100, 1.0, 500.0, "a guess"))
    draw(ProgressReport(1, 100, 1.0, 40.0, "brief"))
    draw(ProgressReport(1, 100, 1.0, 500.0, "long"))
    draw(ProgressReport(2, 100, 0.0, None, "unknown"))
    assert [line.split(":")[0] for line in out.getvalue().splitlines()] == ["long", "unknown"]
