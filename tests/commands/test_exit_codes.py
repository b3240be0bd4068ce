"""What the command line says when something is wrong: one line and exit 2 for an input, 3 for a bug of
ours.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.__main__ import main
from engine.commands import estimate


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make `estimate` fail with a given exception."""
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))

    def install(error: BaseException) -> None:
        def fail(args: Any) -> None:
            raise error

        monkeypatch.setattr(estimate, "run", fail)

    return install


def test_a_bug_of_ours_is_one_line_and_its_traceback_is_in_the_log(
    broken: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(KeyError("anchor\nsecond line"))
    assert main(["estimate", "family.npz"]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    assert "a bug in Anchorpoint" in printed.err
    log = Path(printed.err.strip().rpartition("Details: ")[2]).read_text()
    assert "Traceback" in log
    assert "estimate family.npz" in log


def test_debug_shows_the_traceback(broken: Any, capsys: pytest.CaptureFixture[str]) -> None:
    broken(KeyError("anchor"))
    assert main(["estimate", "family.npz", "--debug"]) == 3
    assert "Traceback" in capsys.readouterr().err


def test_want_of_memory_is_no_bug(broken: Any, capsys: pytest.CaptureFixture[str]) -> None:
    broken(MemoryError())
    assert main(["estimate", "family.npz"]) == 2
    assert "not enough memory" in capsys.readouterr().err


def test_logs_are_bounded_and_old_ones_leave(tmp_path: Path) -> None:
    from engine.guard.logs import KEPT, MAX_BYTES, write_log

    for number in range(KEPT + 5):
        log = write_log("x" * (MAX_BYTES + 10) + str(number), folder=tmp_path)
        assert log is not None
    assert len(list(tmp_path.glob("*.log"))) == KEPT
    assert log.stat().st_size == MAX_BYTES
    assert log.read_text().endswith(str(KEPT + 4))


def test_a_log_folder_that_cannot_be_written_is_no_second_failure(tmp_path: Path) -> None:
    from engine.guard.logs import write_log

    (tmp_path / "file").write_text("in the way")
    log = write_log("words", folder=tmp_path / "file" / "logs")
    assert log is not None
    log.unlink()
