"""The wheel in a fresh environment with the core only: the command line, an export, a study and the app work,
and what is missing is said with the pip line that helps.

One test, because the environment is made once; it takes the place of nothing else.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

# On a machine that does nothing else it takes about a minute; how long downloads take is not ours to say.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("torch", "timm", "keras", "tensorflow", "tf2onnx", "matplotlib", "ray", "ai_edge_litert")
_SECONDS = 600


def run(*command: str | Path, folder: Path, expect: int = 0) -> str:
    """Run a command outside the checkout, and return what it printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**environment, "ANCHORPOINT_WORKSPACE": str(folder / "sessions"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert done.returncode == expect, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def fresh_environment(folder: Path) -> Path:
    """Build the wheel, install it with its core requirements, and return the environment's `bin`."""
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT, folder=folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", folder=folder)
    python = folder / "venv" / "bin" / "python"
    (wheel,) = folder.glob("anchorpoint-*.whl")
    install = ("-m", "pip", "--python", python, "install", "--quiet", "--no-compile", wheel)
    run(sys.executable, *install, folder=folder)
    return python.parent


def check_core_only(python: Path, folder: Path) -> None:
    """The checkout is out of reach and no framework is there, or the rest would prove nothing."""
    find = f"import importlib.util as u; print([m for m in {HEAVY} if u.find_spec(m)])"
    assert run(python, "-c", find, folder=folder).strip() == "[]"
    where = run(python, "-c", "import engine; print(engine.__file__)", folder=folder).strip()
    assert Path(where).is_relative_to(python.parents[1])


def check_commands(bin_: Path, folder: Path) -> None:
    anchorpoint = bin_ / "anchorpoint"
    samples = Path(
        run(bin_ / "python", "-c", "import engine.samples as s; print(s.FOLDER)", folder=folder).strip()
    )
    family = samples / "digits-vit.npz"
    (folder / "labels.csv").write_text("row,label\n0,1\n1,2\n2,3\n3,4\n")
    select = ("select", family, "--method", "auto", "--labels", "labels.csv")
    assert "auto picks b" in run(anchorpoint, *select, folder=folder)
    export = ("export", "--teacher", samples / "digits-vit.onnx", "--candidate", "b4-channel-q99.5")
    assert "NOT" not in run(anchorpoint, *export, "--out", "deploy", folder=folder)
    assert "verified" in run(anchorpoint, "verify", "deploy", folder=folder)
    study = ("study", family, "--out", "study", "--budgets", "10", "--repetitions", "2", "--workers", "1")
    run(anchorpoint, *study, folder=folder)
    assert "<svg" in (folder / "study" / "report.html").read_text()
    missing = ("export", "--teacher", "sample:digits-resnet", "--candidate", "0", "--out", "other")
    line = 'digits-resnet.pt2 needs torch, which is not installed. Run: pip install "anchorpoint[torch]"'
    assert line in run(anchorpoint, *missing, folder=folder, expect=2)


def check_server(bin_: Path, folder: Path) -> None:
    """`anchorpoint app` serves; the window's settings are found beside app.py in the package."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(bin_ / "anchorpoint"), "app", "--headless", "--port", str(port), "--address", "127.0.0.1"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as server:
        try:
            assert healthy(f"http://127.0.0.1:{port}/_stcore/health")
        finally:
            server.terminate()


def healthy(address: str) -> bool:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return bool(answer.read() == b"ok")
        except OSError:
            time.sleep(0.5)
    return False


def test_a_fresh_environment_with_the_core_only(tmp_path: Path) -> None:
    bin_ = fresh_environment(tmp_path)
    check_core_only(bin_ / "python", tmp_path)
    check_commands(bin_, tmp_path)
    run(bin_ / "python", ROOT / "tests" / "installed" / "walk.py", folder=tmp_path)
    check_server(bin_, tmp_path)
