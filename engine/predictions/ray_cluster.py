"""A Ray cluster to run on: joined or started, and its nodes checked before any work goes out.

Knows addresses, versions and what the nodes can see. Ray is optional and imported here only, its telemetry
off. Knows nothing of models.
"""

from __future__ import annotations

import os
import platform
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import engine
from engine.predictions.machine import available_cores
from engine.types import UserError

LOCAL, AUTO = "local", "auto"
_CONNECT_SECONDS = 5.0
_PROBE_SECONDS = 60.0


@dataclass(frozen=True)
class Cluster:
    """A connection to a cluster: the `ray` module itself, whether all nodes see our files, and its cores."""

    ray: Any
    is_shared: bool
    n_cores: int


@contextmanager
def joined(address: str, folder: Path, files: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Join the cluster at `address` (HOST:PORT, `auto`, or `local` to start one here) and leave it at the
    end.

    `folder` is where results go, `files` what is read; nodes that see all of them read and write there,
    otherwise data travels through Ray's object store. Raises UserError if Ray is missing, nobody answers, or
    a node has other versions.
    """
    ray = import_ray()
    _check_address(address)
    root = str(Path(engine.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    settings: dict[str, Any] = {
        "runtime_env": {
            "env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        },
        "log_to_driver": False,
        "logging_level": "error",
    }
    if address == LOCAL:
        settings |= {"num_cpus": available_cores(), "include_dashboard": False}
    else:
        settings["address"] = address
    was_running = ray.is_initialized()
    try:
        if not was_running:
            ray.init(**settings)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"the Ray cluster at {address!r} cannot be joined ({_first_line(error)}).",
            "Start its head node first (docs/scaling.md says how), or use `local`.",
            option="ray",
        ) from None
    try:
        yield _inspected(ray, folder, files)
    finally:
        if not was_running:
            ray.shutdown()


def import_ray() -> Any:
    """Return the `ray` module with its telemetry off. Raises UserError if it is not installed."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray
    except ImportError:
        raise UserError(
            "Ray is not installed, and only a cluster needs it. Run: pip install -r requirements-ray.txt"
        ) from None
    return ray


def _check_address(address: str) -> None:
    """Refuse an address that is none, or that nobody listens at: Ray itself would wait for minutes."""
    if address in (LOCAL, AUTO):
        return
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise UserError(
            f"{address!r} is no address of a Ray cluster.",
            "Write HOST:PORT, e.g. 10.0.0.5:6379, `auto` on a node of the cluster, or `local`.",
            option="ray",
        )
    try:
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"nobody answers at {address} ({_first_line(error)}).",
            "Check the address, the network, and that the head node runs (docs/scaling.md says how).",
            option="ray",
        ) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


# --- the nodes ------------------------------------------------------------------------------


def versions() -> dict[str, str]:
    """Return what must be the same on every node for the same bytes to come out."""
    import onnxruntime as ort

    return {
        "anchorpoint": engine.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "onnxruntime": ort.__version__,
    }


def probe(paths: Sequence[str]) -> dict[str, Any]:
    """Say what this node has: run once on each."""
    sees = all(Path(path).exists() for path in paths)
    return {"node": platform.node(), "versions": versions(), "sees": sees}


def check_versions(ours: Mapping[str, str], nodes: Sequence[Mapping[str, Any]]) -> None:
    """Raise UserError if a node has another version of anything that changes results."""
    for node in nodes:
        for name, wanted in ours.items():
            found = node["versions"].get(name, "none")
            if found != wanted:
                raise UserError(
                    f"node {node['node']} has {name} {found}, this machine {wanted}; results would differ."
                    f" Install {name} {wanted} there."
                )


def _inspected(ray: Any, folder: Path, files: Sequence[Path]) -> Cluster:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    token = folder / f".seen-{secrets.token_hex(8)}"
    token.touch()
    wanted = [str(Path(path).resolve()) for path in (token, *files)]
    try:
        task = ray.remote(num_cpus=0, max_retries=0)(probe)
        asked = [
            task.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            ).remote(wanted)
            for node in alive
        ]
        nodes = ray.get(asked, timeout=_PROBE_SECONDS)
    except ray.exceptions.RayError as error:
        raise UserError(
            f"a node of the cluster cannot run our code ({_first_line(error)}).",
            "Install the same anchorpoint on every node.",
            option="ray",
        ) from None
    finally:
        token.unlink(missing_ok=True)
    if not alive:
        raise UserError("the Ray cluster has no node with a free core. Add one with `ray start`.")
    check_versions(versions(), nodes)
    n_cores = int(sum(node["Resources"]["CPU"] for node in alive))
    return Cluster(ray=ray, is_shared=all(node["sees"] for node in nodes), n_cores=max(1, n_cores))
