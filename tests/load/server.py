"""The app as `make run` starts it, on a free port of this machine, with a workspace of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Server:
    """A running app: where it listens, its process, and where its sessions are."""

    port: int
    process: subprocess.Popen[bytes]
    sessions: Path

    @property
    def megabytes(self) -> float:
        """Resident memory of the server's process (Linux)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1e3


@contextmanager
def serving(folder: Path, **settings: str) -> Iterator[Server]:
    """Start the app with a workspace in `folder` and these environment variables; end it with the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sessions = folder / "sessions"
    environment = {**os.environ, "ANCHORPOINT_WORKSPACE": str(sessions), "PYTHONPATH": str(ROOT), **settings}
    options = ["--server.port", str(port), "--server.address", "127.0.0.1", "--server.headless", "true"]
    command = [sys.executable, "-m", "streamlit", "run", "app.py", *options]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
    try:
        _wait_until_up(f"http://127.0.0.1:{port}/_stcore/health")
        yield Server(port, process, sessions)
    finally:
        process.kill()  # a polite stop waits for browsers that are still connected
        process.wait(30)


def _wait_until_up(health: str) -> None:
    for _ in range(240):
        try:
            with urllib.request.urlopen(health, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.25)
    raise AssertionError("the app did not start")
