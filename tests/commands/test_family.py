"""`predict --family` and `select --max-latency` on a tiny teacher: every kind of candidate from one
command.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.__main__ import main
from engine.predictions.file import load_predictions, save_predictions
from engine.teacher.graph import save
from tests.tiny_teacher import tiny_teacher


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    desk = tmp_path_factory.mktemp("desk")
    save(tiny_teacher(width=24), desk / "tiny.onnx")
    pixels = np.random.default_rng(0).integers(0, 256, (48, 16, 16, 3), dtype=np.uint8)
    np.save(desk / "x.npy", pixels)
    return desk


def run(desk: Path, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert main([*words, "--json"]) == code
    captured = capsys.readouterr()
    return json.loads(captured.out) if code == 0 else captured.err.strip().splitlines()[-1]


def predict(desk: Path, capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> Any:
    words = ["predict", "--teacher", str(desk / "tiny.onnx"), "--images", str(desk / "x.npy")]
    words += ["--out", str(desk / "out.npz"), "--store", str(desk / "store"), "--workers", "1"]
    return run(desk, capsys, *words, *options, code=code)


def test_the_deploy_family_is_written_and_chosen_from(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = predict(desk, capsys, "--family", "deploy")
    predictions = load_predictions(desk / "out.npz")
    assert record["candidates"] == list(predictions.names)
    assert {"b8a8-channel-minmax", "b4-channel-q100-opt", "b4-channel-q100"} <= set(predictions.names)
    mixed = [name for name in predictions.names if name.startswith("mix-")]
    assert set(record["allocation"]) == set(mixed)
    assert predictions.latency is not None
    assert np.isfinite(predictions.latency).all()

    limit = float(np.median(predictions.latency))
    words = ["select", str(desk / "out.npz"), "--method", "distortion", "--max-latency", str(limit)]
    chosen = run(desk, capsys, *words)
    assert chosen["latency"] <= limit
    slow = predictions.latency > limit
    assert [score is None for score in chosen["scores"]] == slow.tolist()
    assert main(words) == 0
    assert "on the processor that ran it" in capsys.readouterr().out
    assert "the fastest takes" in run(desk, capsys, *words[:-1], "1e-9", code=2)
    budget = float(predictions.cost.min()) if predictions.cost is not None else 0.0
    both = [*words[:-1], str(predictions.latency.min()), "--budget", str(budget)]
    if predictions.latency[np.argmin(predictions.cost)] > predictions.latency.min():  # type: ignore[arg-type]
        assert "at once" in run(desk, capsys, *both, code=2)


def test_single_candidates_of_any_kind(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = predict(desk, capsys, "--candidates", "26,b8a8-tensor-mse,mix-0.3", "--no-latency")
    assert record["candidates"] == ["b4-channel-q99", "b8a8-tensor-mse", "mix-0.3"]
    assert record["latency"] is None
    timed = predict(desk, capsys, "--candidates", "26", "--latency")
    assert len(timed["latency"]) == 1


def test_a_budget_holds_for_what_is_built(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = predict(desk, capsys, "--family", "deploy", "--budget", "0.35", "--no-latency")
    assert max(record["cost"]) <= 0.35
    assert "mix-0.35" in record["candidates"]


def test_wrong_words_are_explained(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--family names a family" in predict(desk, capsys, "--family", "deploy", "--bits", "4", code=2)
    assert "is not a candidate name" in predict(desk, capsys, "--candidates", "b8a8-best", code=2)
    np.save(desk / "few.npy", np.zeros((6, 16, 16, 3), np.uint8))
    line = predict(desk, capsys, "--images", str(desk / "few.npy"), "--family", "deploy", code=2)
    assert "has 3 images" in line
    assert "--family" in line


def test_old_files_have_no_times(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    predict(desk, capsys, "--candidates", "26,27")
    predictions = load_predictions(desk / "out.npz")
    save_predictions(predictions, desk / "old.npz")
    words = ["select", str(desk / "old.npz"), "--method", "distortion"]
    assert run(desk, capsys, *words)["latency"] is None
    assert "a limit on time needs" in run(desk, capsys, *words, "--max-latency", "0.8", code=2)


@pytest.mark.parametrize("name", ["b8a8-channel-minmax", "mix-0.3"])
def test_a_judged_file_is_exported_and_verified(
    desk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    predict(desk, capsys, "--candidates", f"26,{name}", "--no-latency")
    judged = load_predictions(desk / "out.npz").file_sha256
    assert judged is not None
    words = [
        "export",
        "--teacher",
        str(desk / "tiny.onnx"),
        "--candidate",
        name,
        "--out",
        str(tmp_path / "m"),
    ]
    evidence = ["--predictions", str(desk / "out.npz"), "--images", str(desk / "x.npy")]
    record = run(desk, capsys, *words, *evidence, "--store", str(desk / "store"))
    assert record["passed"], record["checks"]
    assert record["sha256"] == judged[1]
    assert record["checks"][0]["name"] == "judged bytes"
    verified = run(desk, capsys, "verify", str(tmp_path / "m"), "--images", str(desk / "x.npy"))
    assert verified["passed"]
    # without the store, the same images make the same bytes again
    again = run(desk, capsys, *words, *evidence, "--store", str(tmp_path / "empty"))
    assert again["sha256"] == judged[1]
    line = run(desk, capsys, *words, "--store", str(tmp_path / "nothing"), code=2)
    assert "made with calibration images" in line


def test_one_reason_is_one_line_and_float_operators_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A network that puts nan where no output shows it: what is fitted to such values is left out, the rest
    is judged.
    """
    rng, node = np.random.default_rng(0), helper.make_node
    kernels = {
        "w": rng.normal(0, 0.3, (4, 3, 3, 3)),
        "v": rng.normal(0, 0.3, (4, 4, 3, 3)),
        "h": rng.normal(0, 1, (3, 4)),
    }
    nodes = [
        node("ReduceMean", ["x", "axes"], ["mean"]),
        node("Div", ["x", "mean"], ["relative"]),  # a black image has no mean to divide by
        node("Conv", ["relative", "w"], ["a"]),
        node("Elu", ["a"], ["b"]),
        node("Conv", ["b", "v"], ["c"]),
        node("IsNaN", ["c"], ["lost"]),
        node("Where", ["lost", "zero", "c"], ["d"]),
        node("GlobalAveragePool", ["d"], ["e"]),
        node("Flatten", ["e"], ["f"]),
        node("Gemm", ["f", "h"], ["y"], transB=1),
    ]
    stored = {name: array.astype(np.float32) for name, array in kernels.items()}
    stored |= {"axes": np.array([1, 2, 3]), "zero": np.zeros((), np.float32)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(array, name) for name, array in stored.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        tmp_path / "odd.onnx",
    )
    pixels = rng.integers(0, 256, (32, 16, 16, 3), dtype=np.uint8)
    pixels[::3] = 0
    np.save(tmp_path / "x.npy", pixels)
    words = ["predict", "--teacher", str(tmp_path / "odd.onnx"), "--images", str(tmp_path / "x.npy")]
    words += ["--out", str(tmp_path / "out.npz"), "--store", str(tmp_path / "s"), "--workers", "1"]
    names = "b8a8-channel-minmax,b8a8-tensor-minmax,b3-channel-q100-bc,mix-0.5,mix-0.5-opt"
    assert main([*words, "--candidates", f"26,{names}", "--no-latency"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert load_predictions(tmp_path / "out.npz").names == ("b4-channel-q99", "mix-0.5")
    refused = [line for line in lines if line.startswith("not judged: ")]
    assert refused[0].startswith("not judged: b8a8-channel-minmax, b8a8-tensor-minmax, because the teacher's")
    assert "nan or infinite within calibration images 0 to 16" in refused[0]
    assert refused[1].startswith("not judged: b3-channel-q100-bc, mix-0.5-opt, because")
    assert len(refused) == 2
    assert any(line.startswith("W8A8: these operators stay float") and "1 Elu" in line for line in lines)
