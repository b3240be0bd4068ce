"""What happens when things die: a killed run resumes with identical bytes, orphans end by themselves, lost
workers are explained.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engine.family.recipes import custom_family
from engine.predictions import runner
from engine.predictions.gather import predict
from engine.target import open_images
from engine.types import Kernel, Preprocessing, Recipe, Teacher, UserError
from tests.tiny_teacher import tiny_teacher

RECIPES = custom_family((2, 4, 8), (99.0, 100.0), ("tensor", "channel"), (False, True))
PIXELS = np.random.default_rng(0).integers(0, 256, (600, 16, 16, 3), dtype=np.uint8)

# A run that kills itself, without warning, once a share of the work is done.
VICTIM = """
import os, signal, sys
from pathlib import Path
from engine.predictions import runner
from engine.predictions.gather import predict
from engine.target import open_images
from tests.predictions.test_kill import RECIPES
from tests.tiny_teacher import tiny_teacher

def watch(report):
    if report.stage.startswith("running") and report.done >= float(sys.argv[3]) * report.total:
        os.kill(os.getpid(), signal.SIGKILL)

runner._SMALL = 0.0
images, store = open_images(sys.argv[1]), Path(sys.argv[2])
predict(tiny_teacher(), RECIPES, images, store=store, workers=int(sys.argv[4]), on_progress=watch)
"""


def hashes(store: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in store.glob("predictions/*/*.npy")
    }


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "x.npy"
    np.save(path, PIXELS)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("share", "workers"), [(0.05, 2), (0.4, 2), (0.83, 1)])
def test_a_killed_run_resumes_with_identical_bytes(
    array: Path, tmp_path: Path, share: float, workers: int
) -> None:
    victim = subprocess.run(
        [sys.executable, "-c", VICTIM, str(array), str(tmp_path / "s"), str(share), str(workers)],
        check=False,
        timeout=120,
    )
    assert victim.returncode == -signal.SIGKILL
    before = hashes(tmp_path / "s")
    assert len(before) < 25
    resumed = predict(tiny_teacher(), RECIPES, open_images(array), store=tmp_path / "s")
    untouched = predict(tiny_teacher(), RECIPES, open_images(array), store=tmp_path / "fresh")
    assert resumed.candidates.tobytes() == untouched.candidates.tobytes()
    after = hashes(tmp_path / "s")
    assert after == hashes(tmp_path / "fresh")
    assert before.items() <= after.items()


@pytest.mark.slow
def test_workers_of_a_killed_run_end_by_themselves(array: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", VICTIM, str(array), str(tmp_path / "s"), "0.2", "2"]
    subprocess.run(command, check=False, timeout=120, env={**os.environ, "MARKER": str(tmp_path)})
    deadline = time.monotonic() + 20
    while alive := _processes_with(f"MARKER={tmp_path}"):
        assert time.monotonic() < deadline, f"orphans: {alive}"
        time.sleep(0.1)


def _processes_with(setting: str) -> list[str]:
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if setting.encode() in environment.read_bytes().split(b"\0"):
                found.append(environment.parent.name)
    return found


@pytest.mark.parametrize(
    ("script", "error", "words"),
    [("kill -9 $$", UserError, "lack of memory.*--workers"), ("exit 3", RuntimeError, "code 3")],
)
def test_a_lost_worker_is_explained(
    array: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    error: type[Exception],
    words: str,
) -> None:
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o755)
    monkeypatch.setattr(runner, "_SMALL", 0.0)
    monkeypatch.setattr(sys, "executable", str(fake))
    with pytest.raises(error, match=words):
        predict(tiny_teacher(), RECIPES, open_images(array), store=tmp_path / "s", workers=2)


def dividing_teacher() -> Teacher:
    """y = z / z with z = x W: ones, unless clipping turns W to zeros; then nan."""
    weights = np.zeros((2, 3 * 16 * 16), np.float32)
    weights[:, 5] = 1.0
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["z"], transB=1),
        helper.make_node("Div", ["z", "z"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "dividing",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.checker.check_model(model)
    kernel = Kernel("w", weights.shape, (0,), "Gemm")
    content = model.SerializeToString()
    return Teacher(
        name="dividing",
        source="test",
        graph=content,
        kernels=(kernel,),
        weights={"w": weights},
        preprocessing=Preprocessing(16, 16),
        class_names=("a", "b"),
        output="logits",
        float_bytes=weights.nbytes,
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_candidates_that_yield_nan_are_missing(
    array: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(runner, "_SMALL", 0.0)
    np.save(tmp_path / "bright.npy", np.maximum(PIXELS[:40], 1))
    images = open_images(tmp_path / "bright.npy")
    recipes = (Recipe(8, 99.0, "tensor", False), Recipe(8, 100.0, "tensor", False))
    result = predict(dividing_teacher(), recipes, images, store=tmp_path / "s", workers=workers)
    assert result.names == ("b8-tensor-q100",)
    assert result.missing == ("b8-tensor-q99",)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_teacher_that_yields_nan_is_refused(
    array: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.setattr(runner, "_SMALL", 0.0)
    teacher = tiny_teacher()
    broken = replace(teacher, preprocessing=replace(teacher.preprocessing, scale=1e35))
    with pytest.raises(UserError, match="nan or infinity"):
        predict(broken, RECIPES[:2], open_images(array), store=tmp_path / "s", workers=workers)


def test_workers_need_no_framework() -> None:
    code = (
        "import sys, engine.predictions.worker; print([m for m in ('torch', 'tensorflow', 'keras', 'timm',"
        " 'onnx', 'streamlit') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
