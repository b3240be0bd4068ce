"""The app's jobs under kill -9: of the server that started one, and of the worker that does it, at moments
drawn by a seed. What the visitor finds afterwards is what an undisturbed visitor finds.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.predictions.file import save_predictions
from engine.teacher.graph import save
from engine.teacher.request import LoadRequest
from pages.ui.jobs.control import job_of, resume
from pages.ui.workspace.folder import new_id
from tests.pages.ui.jobs.test_control import wait_for
from tests.study.families import make_family
from tests.tiny_teacher import tiny_teacher

ROOT = Path(__file__).resolve().parents[2]
_SERVER = """
import json, sys, time
from pathlib import Path
from pages.ui.jobs.control import start
start(Path(sys.argv[1]), sys.argv[2], **json.loads(sys.argv[3]))
time.sleep(600)
"""
_LEFT = ("teacher.onnx", "outline.json", "predictions.npz", "export/model.onnx", "study/results.csv")


def jobs(root: Path) -> dict[str, dict[str, Any]]:
    """What the visitor asks for, one after the other."""
    save(tiny_teacher(), root / "tiny.onnx")
    np.save(root / "images.npy", np.random.default_rng(0).integers(0, 256, (40, 16, 16, 3), dtype=np.uint8))
    save_predictions(make_family(0, n_pool=20, n_test=20, n_candidates=4), root / "family.npz")
    target, slug = str(root / "images.npy"), "b4-channel-q99.5"
    return {
        "import": LoadRequest(spec=str(root / "tiny.onnx")).to_dict(),
        "check": {"target": target},
        "predict": {"target": target, "recipes": [slug, "b8-tensor-q100"]},
        "export": {"slug": slug, "formats": [], "target": target, "source": "", "evidence": {}},
        "study": {"files": [str(root / "family.npz")], "budgets": [5], "rates": [0.0], "rules": ["val-ce"]},
    }


def ask(folder: Path, kind: str, arguments: dict[str, Any], *until: str) -> None:
    """Have a server start the job, and kill it as soon as the job is there and has come so far."""
    command = [sys.executable, "-c", _SERVER, str(folder), kind, json.dumps(arguments)]
    server = subprocess.Popen(command, cwd=ROOT)
    wait_for(folder, kind, *until, "running", "done")
    server.kill()
    server.wait()


def strike(folder: Path, kind: str, delay: float) -> bool:
    """Kill the worker after a while; say whether that, or the end of its server before, interrupted it."""
    running = wait_for(folder, kind, "running", "done", "interrupted")
    if running.state == "interrupted":
        return True
    time.sleep(delay)
    job = job_of(folder, kind)
    if job is None or not job.is_alive:
        return False
    os.kill(running.pid, signal.SIGKILL)
    wait_for(folder, kind, "interrupted")
    return True


@pytest.mark.slow
def test_kills_of_server_and_worker_change_nothing(workspace: Path, tmp_path: Path) -> None:
    rng, n_struck = random.Random(20261118), 0
    asked = jobs(tmp_path)
    calm, struck = workspace / new_id(), workspace / new_id()
    for folder in (calm, struck):
        folder.mkdir(parents=True)
        for kind, arguments in asked.items():
            ask(folder, kind, arguments, *(("queued",) if folder == struck else ()))
            if folder == struck and strike(folder, kind, rng.uniform(0, 0.6)):
                n_struck += 1
                resume(folder, kind)
            wait_for(folder, kind, "done", seconds=180)
    assert n_struck  # otherwise every kill came too late to try anything
    assert digests(struck) == digests(calm)


def digests(folder: Path) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in _LEFT}
