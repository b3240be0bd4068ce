"""Kills, full and closed disks at moments drawn by a seed, and two processes at one store: nothing that was
acknowledged is lost, nothing wrong is accepted, the reason is one line, and the work done again is the same.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_no_fault_loses_or_spoils_anything(tmp_path: Path) -> None:
    """Import, run, label, export and study: each is struck some fifteen times."""
    command = [sys.executable, "-m", "tests.faults.trial", str(tmp_path), "20261118", "6"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
