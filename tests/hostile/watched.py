"""Run the command line as a stranger would, and watch it from outside: exit code, words, seconds, the most
memory that it and all its children held at one time, and what it left or changed around it.

`python -m tests.hostile.watched FOLDER` gives every file of a folder to its command and prints a table.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.surroundings import CANARY, Peak, everything_in

ROOT = Path(__file__).resolve().parents[2]
SECONDS, MEMORY = 60.0, 4.3e9  # of one hostile file: what it may allocate, and the libraries that read it
_PLACES = {"TMPDIR": "tmp", "HOME": "home", "ANCHORPOINT_STORE": "store", "ANCHORPOINT_LOGS": "logs"}
_OUTPUT = ("store", "logs", "work/o.npz", "work/o", "work/s")


@dataclass(frozen=True)
class Ended:
    """How a watched command ended."""

    code: int
    said: str
    seconds: float
    peak: int  # bytes
    touched: tuple[str, ...] = ()  # what is new, changed or gone outside the output, by name

    @property
    def problem(self) -> str:
        """What of the contract was broken; empty if nothing."""
        lines = [line for line in self.said.splitlines() if line.strip()]
        broken = {
            f"exit code {self.code}": self.code not in (0, 2),
            "a traceback": "Traceback" in self.said,
            f"{len(lines)} lines": self.code == 2 and len(lines) != 1,
            "control characters": self.code == 2 and not all(line.isprintable() for line in lines),
            f"{self.seconds:.0f} s": self.seconds > SECONDS,
            f"{self.peak / 1e9:.1f} GB": self.peak > MEMORY,
            f"touched {', '.join(self.touched[:5])}": bool(self.touched),
        }
        return ", ".join(words for words, is_broken in broken.items() if is_broken)


def watched(arguments: Sequence[str], root: Path, *, seconds: float = 2 * SECONDS) -> Ended:
    """Run `python -m engine ARGUMENTS` in the folder `work` of `root`, with store, logs, home and temporary
    files beside it, and a canary in each place.
    """
    _set_canaries(root)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    environment |= {name: str(root / place) for name, place in _PLACES.items()}
    before, started = everything_in(root, but=_OUTPUT), time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", *arguments],
        cwd=root / "work",
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with Peak(process.pid) as peak:
        try:
            said = process.communicate(timeout=seconds)[1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said = process.communicate()[1]
    spent, after = time.monotonic() - started, everything_in(root, but=_OUTPUT)
    touched = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return Ended(process.returncode, said, spent, peak.bytes, tuple(touched))


def _set_canaries(root: Path) -> None:
    for folder in (root, root / "work", root / "tmp", root / "home"):
        folder.mkdir(exist_ok=True)
        (folder / "canary").write_bytes(CANARY)


_PREDICT, _TO = ["predict", "--teacher"], ["--out", "o.npz"]
_CHECKPOINTS = (".safetensors", ".pth")
MODELS = (".onnx", ".keras", ".h5", ".pt2", *_CHECKPOINTS)


def command_for(path: Path) -> list[str]:
    """The command that a stranger's file of this kind would be given to."""
    name = str(path.absolute())
    if path.suffix in MODELS:
        arch = ["--arch", "resnet18", "--classes", "4"] if path.suffix in _CHECKPOINTS else []
        return [*_PREDICT, name, *arch, "--images", "images.npy", *_TO]
    if path.name.startswith("files-"):
        return [*_PREDICT, "consensus", "--candidates-from", name, "--images", "images.npy", *_TO]
    if path.suffix == ".npz" or (path / "meta.json").exists():
        return ["select", name, "--method", "auto"]
    if path.suffix == ".csv":
        return ["select", "family.npz", "--labels", name, "--method", "auto"]
    if "bundle" in path.name or (path / "certificate.json").exists():
        return ["verify", name]
    return [*_PREDICT, "sample:digits-vit", "--images", name, *_TO, "--candidates", "b8-tensor-q100"]


def give_inputs(folder: Path) -> None:
    """Write what the commands need beside the hostile file."""
    import numpy as np

    from engine.predictions.file import save_predictions
    from tests.study.families import make_family

    np.save(folder / "images.npy", np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), dtype=np.uint8))
    save_predictions(make_family(0, n_pool=20, n_test=20, n_candidates=4), folder / "family.npz")


def main(files: Sequence[Path]) -> None:
    """Print one line a file, and what broke the contract."""
    for path in files:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder, "work")
            work.mkdir()
            give_inputs(work)
            ended = watched(command_for(path), Path(folder))
        last = (ended.said.strip().splitlines() or [""])[-1][:150]
        figures = f"exit {ended.code} {ended.seconds:5.1f} s {ended.peak / 1e9:5.2f} GB"
        print(f"{ended.problem or 'ok':20} {path.name:40} {figures}  {last}", flush=True)


if __name__ == "__main__":
    place = Path(sys.argv[1])
    given = sorted(place.iterdir()) if place.is_dir() and len(sys.argv) == 2 else map(Path, sys.argv[1:])
    main([path for path in given if path.name != "README.md"])
