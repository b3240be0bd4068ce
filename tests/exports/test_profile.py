"""What a file costs to load and run, measured for real in fresh processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.exports import profile_worker
from engine.exports.graph import float_model, pack_model
from engine.exports.profile import measure_profiles
from engine.family.recipes import parse_slug
from tests.tiny_teacher import tiny_teacher


@pytest.mark.slow
def test_float_packed_and_folded_are_measured_in_that_order() -> None:
    teacher = tiny_teacher()
    packed = pack_model(teacher, parse_slug("b4-channel-q100")).content
    profiles = list(measure_profiles(float_model(teacher), packed, teacher.preprocessing))
    assert [profile.name for profile in profiles] == ["float", "packed", "folded"]
    assert all(profile.load_ms > 0 and profile.latency_ms > 0 for profile in profiles)


@pytest.mark.parametrize("mode", ["packed", "folded"])
def test_the_worker_returns_its_three_numbers(mode: str, tmp_path: Path) -> None:
    teacher = tiny_teacher()
    path = tmp_path / "model.onnx"
    path.write_bytes(pack_model(teacher, parse_slug("b4-channel-q100")).content)
    numbers = profile_worker.main(str(path), mode, 3, (3, 16, 16))
    assert set(numbers) == {"load_ms", "latency_ms", "resident_bytes"}
    assert numbers["latency_ms"] is not None
    assert numbers["latency_ms"] > 0


def test_memory_is_unknown_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (profile_worker.resident_bytes() or 1) > 0
    monkeypatch.setattr(profile_worker.Path, "exists", lambda self: False)
    assert profile_worker.resident_bytes() is None
