"""What this process may use: cores and memory, also inside a container that grants less than the machine
has.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")


def available_cores(cgroup: Path = _CGROUP) -> int:
    """Return how many cores may be kept busy: those this process is bound to, or the container's quota if
    that is less.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = (cgroup / "cpu.max").read_text(encoding="ascii").split()
        return max(1, min(bound, math.ceil(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or no quota ("max")
        return bound


def available_memory(cgroup: Path = _CGROUP) -> int | None:
    """Return the bytes that new processes can use without swapping, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return None
    try:
        limit, used = (
            int((cgroup / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current")
        )
        return max(0, min(free, limit - used))
    except (OSError, ValueError):
        return free
