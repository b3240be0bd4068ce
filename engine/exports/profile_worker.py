"""Load one ONNX file in a fresh guarded process and say what it cost; imports onnxruntime and NumPy only."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import numpy as np
import onnxruntime as ort

from engine.guard import Child, stage


def resident_bytes() -> int | None:
    """Return this process's resident memory, or None where the system does not say."""
    status = Path("/proc/self/statm")
    if not status.exists():
        return None
    return int(status.read_text().split()[1]) * 4096


def main(path: str, mode: str, runs: int, shape: tuple[int, ...]) -> dict[str, float | None]:
    """Return load_ms, latency_ms (median of `runs`, after one warm-up) and resident growth in bytes."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if mode == "folded":
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    image = np.zeros((1, *shape), np.float32)
    before = resident_bytes()
    started = time.perf_counter()
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter() - started
    name = session.get_inputs()[0].name
    session.run(None, {name: image})
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        session.run(None, {name: image})
        times.append(time.perf_counter() - started)
    after = resident_bytes()
    growth = None if before is None or after is None else after - before
    return {"load_ms": 1e3 * loaded, "latency_ms": 1e3 * statistics.median(times), "resident_bytes": growth}


def profile_in_child(
    child: Child, path: str, mode: str, runs: int, shape: list[int]
) -> dict[str, float | None]:
    """The child's part of `measure_profiles`."""
    stage("running the file on one image")
    return main(path, mode, runs, tuple(shape))
