"""Cores and memory as a container grants them, read from files made up for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.predictions import machine


def test_a_containers_quota_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    (tmp_path / "cpu.max").write_text("250000 100000")
    assert machine.available_cores(tmp_path) == 3  # two and a half, rounded up
    (tmp_path / "cpu.max").write_text("max 100000")
    assert machine.available_cores(tmp_path) == 8
    assert machine.available_cores(tmp_path / "none") == 8


def test_memory_is_the_smaller_of_machine_and_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = machine.available_memory(tmp_path)
    if free is None:
        pytest.skip("this system has no /proc/meminfo")
    (tmp_path / "memory.max").write_text("1000000")
    (tmp_path / "memory.current").write_text("400000")
    assert machine.available_memory(tmp_path) == 600_000
    (tmp_path / "memory.current").write_text("2000000")
    assert machine.available_memory(tmp_path) == 0


def test_a_system_that_does_not_say_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(self: Path, **options: str) -> str:
        raise OSError("no such file")

    monkeypatch.setattr(Path, "read_text", unreadable)
    assert machine.available_memory(tmp_path) is None
