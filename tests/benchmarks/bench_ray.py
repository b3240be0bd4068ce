"""`predict` on a Ray cluster of two simulated nodes of one core against two local workers, in turns: the same
bytes, processor seconds and time, also when a node is killed in the middle.

Each run is a process of its own; what it and everything that it started used of the processor is counted
together, the cluster's own processes included. `python -m tests.benchmarks.bench_ray MODELS IMAGES` measures
another size.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

MODELS, IMAGES, BAR = 73, 1000, 1.15
LOCAL, RAY, KILLED = "two local workers", "two Ray nodes", "two Ray nodes, one killed in the middle"
_MARK = "ANCHORPOINT_BENCHMARK"  # an environment variable, so that a run's processes are known
_LOOK = 0.5  # seconds between looks at what they used
_TICKS = os.sysconf("SC_CLK_TCK")


# --- one run, in a process of its own -------------------------------------------------------


def child(how: str, folder: str, n_models: int) -> None:
    """Run the family and print the digest of the predictions file and the seconds that `predict` took."""
    from engine.family.recipes import standard_family
    from engine.predictions.file import save_predictions
    from engine.predictions.gather import predict, running_order
    from engine.target import open_images
    from engine.teacher.load import load_teacher

    work = Path(folder)
    recipes = running_order(standard_family())[: n_models - 1]
    teacher = load_teacher(work / "teacher.onnx")
    images = open_images(str(work / "pool.npy"))
    with tempfile.TemporaryDirectory(dir=folder) as store, _ground(how) as options:
        started = time.perf_counter()
        found = predict(teacher, recipes, images, store=Path(store) / "store", **options)
        seconds = time.perf_counter() - started
        save_predictions(found, Path(store) / "family.npz")
        digest = hashlib.sha256((Path(store) / "family.npz").read_bytes()).hexdigest()
    print(json.dumps({"digest": digest, "seconds": seconds}), flush=True)


@contextmanager
def _ground(how: str) -> Iterator[dict[str, Any]]:
    """Start two nodes if they are wanted and yield what `predict` needs to run there; one may end in the
    middle.
    """
    if how == LOCAL:
        yield {"workers": 2}
        return
    from engine.predictions.ray_cluster import import_ray

    import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1)]

    def watch(report: Any) -> None:
        is_half = report.stage.startswith("running") and report.done > report.total / 2
        if how == KILLED and nodes and is_half:
            cluster.remove_node(nodes.pop(), allow_graceful=False)

    try:
        yield {"ray": cluster.address, "on_progress": watch}
    finally:
        cluster.shutdown()


# --- the processes of a run -----------------------------------------------------------------


def _used(mark: str) -> dict[int, float]:
    """Return the processor seconds of every living process that carries the mark (Linux)."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (path / "environ").read_bytes():
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                found[int(path.name)] = (int(fields[11]) + int(fields[12])) / _TICKS
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or is another user's
            continue
    return found


def run(how: str, folder: Path, n_models: int) -> dict[str, Any]:
    """Run one way to the end; return its digest, its seconds and its processor seconds."""
    mark, used = secrets.token_hex(8), dict[int, float]()
    code = f"from tests.benchmarks.bench_ray import child; child({how!r}, {str(folder)!r}, {n_models})"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, _MARK: mark, "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        text=True,
    )
    while process.poll() is None:
        used.update(_used(mark))
        time.sleep(_LOOK)
    assert process.stdout is not None
    assert process.returncode == 0, how
    said = process.stdout.read().strip().splitlines()[-1]
    return {**json.loads(said), "processor": sum(used.values()), "load": os.getloadavg()[0]}


# --- the report -----------------------------------------------------------------------------


def _prepare(folder: Path, n_images: int) -> None:
    """Leave a teacher of usual size with random weights, and a pool."""
    import torch

    from engine.teacher.importers.timm import build, timm_preprocessing
    from engine.teacher.importers.torch import import_module

    torch.manual_seed(0)
    model = build("mobilenetv2_100", 1000).eval()
    teacher = import_module(
        model, name="m", input_shape=(3, 224, 224), preprocessing=timm_preprocessing(model)
    )
    (folder / "teacher.onnx").write_bytes(teacher.graph)
    pixels = np.random.default_rng(0).integers(0, 256, (n_images, 224, 224, 3), dtype=np.uint8)
    np.save(folder / "pool.npy", pixels)


def main(quick: bool = False, n_models: int = MODELS, n_images: int = IMAGES) -> Iterator[str]:
    n_models, n_images = (3, 20) if quick else (n_models, n_images)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _prepare(folder, n_images)
        yield f"MobileNetV2 at 224 x 224, 1,000 classes, {n_models} models on {n_images:,} images:"
        yield ""
        yield f"| | time | processor seconds | over the local ones (bar {BAR:g}x) | same bytes | load after |"
        yield "|---|---|---|---|---|---|"
        own: dict[str, Any] = {}
        for how in (LOCAL, RAY, KILLED):
            found = run(how, folder, n_models)
            own = own or found
            yield (
                f"| {how} | {found['seconds']:.0f} s | {found['processor']:.0f}"
                f" | {found['processor'] / own['processor']:.2f}x | {found['digest'] == own['digest']}"
                f" | {found['load']:.1f} |"
            )


if __name__ == "__main__":
    for line in main(n_models=int(sys.argv[1]), n_images=int(sys.argv[2])):
        print(line, flush=True)
