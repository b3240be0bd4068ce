"""A run killed while layers are measured goes on with the next layer and ends with the same bytes."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from engine.deploy import sensitivity
from engine.deploy.calibration import Calibration, calibrate_on
from engine.deploy.workshop import Workshop
from engine.family.kinds import parse_any
from engine.predictions.runner import ProgressReport
from engine.types import Kernel
from tests.tiny_teacher import tiny_teacher

RECIPES = tuple(map(parse_any, ("b8a8-channel-minmax", "mix-0.4", "mix-0.4-opt")))

# A build that kills itself, without warning, once two layers are measured.
VICTIM = """
import os, signal, sys
from pathlib import Path
from engine.deploy.workshop import Workshop
from tests.deploy.test_resuming import RECIPES, given

def watch(report):
    if report.stage == "measuring layers" and report.done == 2:
        os.kill(os.getpid(), signal.SIGKILL)

Workshop(given(), Path(sys.argv[1]), watch).build(RECIPES)
"""


def given() -> Calibration:
    images = np.random.default_rng(2).standard_normal((40, 3, 16, 16)).astype(np.float32)
    return calibrate_on(tiny_teacher(width=16), images)


def hashes(store: Path) -> dict[str, str]:
    files = [*store.glob("tailored/*/*"), *store.glob("sensitivity/*/*")]
    return {str(f.relative_to(store)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_a_kill_amid_the_layers_costs_none_that_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "s"
    victim = subprocess.run([sys.executable, "-c", VICTIM, str(store)], check=False, timeout=120)
    assert victim.returncode == -signal.SIGKILL
    kept = json.loads(next(store.glob("sensitivity/*/harm.json")).read_text())
    assert len(kept) == 2

    measured, layer = [], sensitivity._layer
    monkeypatch.setattr(
        sensitivity,
        "_layer",
        lambda reference, kernel: measured.append(kernel.name) or layer(reference, kernel),
    )
    reports: list[ProgressReport] = []
    built = Workshop(given(), store, reports.append).build(RECIPES)
    assert len(built.files) == 3
    kernels: tuple[Kernel, ...] = given().teacher.kernels
    assert sorted(measured) == sorted(k.name for k in kernels if k.name not in kept)
    assert [r.done for r in reports if r.stage == "measuring layers"] == [3, 4]

    monkeypatch.undo()
    Workshop(given(), tmp_path / "fresh").build(RECIPES)
    assert hashes(store) == hashes(tmp_path / "fresh")
