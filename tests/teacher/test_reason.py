"""A framework's failure in one line."""

from __future__ import annotations

import pytest

from engine.teacher.reason import LONGEST, reason


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("\n  It broke.\nTraceback follows", "It broke"),
        ("no such op", "no such op"),
        ("", "ValueError"),
        ("  \n ", "ValueError"),
        ("x" * 1000, "x" * LONGEST),
        (
            "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running Pad node. Name:'p'"
            " Status Message: /onnxruntime_src/onnxruntime/core/framework/bfc_arena.cc:360 void*"
            " onnxruntime::BFCArena::AllocateRawInternal(size_t, bool, onnxruntime::Stream*) Failed to"
            " allocate memory for requested buffer of size 12",
            "its operator Pad 'p' fails: Failed to allocate memory for requested buffer of size 12",
        ),
        (
            "Exception during initialization: /src/core/x.h:7 T onnxruntime::Get(const F<void(int)>&) const"
            " [with T = std::vector<int>] n > 0 was false.",
            "Exception during initialization: n > 0 was false",
        ),
    ],
)
def test_the_first_line_without_its_full_stop(message: str, expected: str) -> None:
    assert reason(ValueError(message)) == expected
