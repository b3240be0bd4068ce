"""The guard: however a child ends, one sentence comes back, nothing is left behind, and the log says more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.guard import EndedError, Limits, Outcome, guarded, limits_for, patience_with
from engine.guard.run import PREFIX
from engine.types import UserError

TIGHT = Limits(memory=600_000_000, seconds=20.0, output_bytes=20_000_000, open_files=100)


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    monkeypatch.setenv("ANCHORPOINT_LOGS", str(tmp_path / "logs"))
    return tmp_path


def run(name: str, limits: Limits = TIGHT, **arguments: Any) -> Outcome:
    with guarded(
        f"tests.guard.misbehaving:{name}", arguments, subject="green.onnx", limits=limits
    ) as outcome:
        assert (outcome.folder / "result.json").is_file()
        return outcome


def refusal(name: str, limits: Limits = TIGHT, **arguments: Any) -> str:
    with pytest.raises(UserError) as caught:
        run(name, limits, **arguments)
    text = str(caught.value)
    assert "\n" not in text
    return text


def log_of(text: str) -> str:
    return Path(text.rpartition("Details: ")[2]).read_text()


def test_plain_data_goes_in_and_comes_back_with_files() -> None:
    with guarded("tests.guard.misbehaving:answer", {"a": [1, "b"]}, subject="x", limits=TIGHT) as outcome:
        assert outcome.result["arguments"] == {"a": [1, "b"]}
        assert (outcome.folder / "made.txt").read_text() == "made by the child"
        assert outcome.result["cwd"] == outcome.result["tmp"] == str(outcome.folder)
    assert not outcome.folder.exists()


def test_a_refusal_of_ours_arrives_as_it_is() -> None:
    assert refusal("refuse") == "the file is green. Paint it blue."


def test_an_exception_of_a_library_is_one_line_and_its_traceback_is_in_the_log() -> None:
    text = refusal("fail")
    assert text.startswith(
        "green.onnx cannot be used: reading the palette failed (RuntimeError: no such colour)."
    )
    assert "Traceback" in log_of(text)
    assert "misbehaving.py" in log_of(text)


@pytest.mark.parametrize(("name", "allowed"), [("loop", (1, 4)), ("sleep", (4,))])
def test_a_stage_that_does_not_end_is_ended(name: str, allowed: tuple[int, ...]) -> None:
    """A busy one by its processor time (on a crowded machine by the clock), a waiting one by the clock."""
    text = refusal(name, replace(TIGHT, seconds=1.0))
    assert any(f"took longer than {seconds} s" in text for seconds in allowed)
    assert "ANCHORPOINT_IMPORT_SECONDS" in text


def test_who_was_ended_can_be_told_from_who_refused() -> None:
    with pytest.raises(EndedError) as late:
        run("loop", replace(TIGHT, seconds=1.0))
    with pytest.raises(EndedError) as fallen:
        run("fail")
    assert (late.value.is_late, fallen.value.is_late) == (True, False)
    with pytest.raises(UserError) as refused:
        run("refuse")
    assert not isinstance(refused.value, EndedError)


def test_home_is_the_childs_own_folder() -> None:
    """What a library writes at home when it is imported is gone with the child."""
    outcome = run("answer")
    assert outcome.result["home"] == outcome.result["cwd"]


def test_progress_starts_the_clock_anew() -> None:
    assert run("step", replace(TIGHT, seconds=1.0), n=10, seconds=0.6).result == 10


def test_too_much_memory_is_refused_and_enough_is_granted() -> None:
    text = refusal("allocate", n_bytes=2_000_000_000)
    assert "filling memory needs more than 0.6 GB of memory" in text
    assert "ANCHORPOINT_IMPORT_MEMORY_GB" in text
    assert run("allocate", n_bytes=200_000_000).result == 200_000_000


def test_one_large_file_and_many_small_ones_are_bounded() -> None:
    assert "writing wrote more than 0.02 GB" in refusal("write", n_bytes=1 << 26)
    assert "writing many files wrote more than 0.02 GB" in refusal("scatter", n_files=2000)


def test_open_files_are_bounded() -> None:
    assert "Too many open files" in refusal("open_files", n_files=200)
    assert run("open_files", n_files=50).result == 50


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, "decoding ended abnormally (SIGSEGV)"),
        (signal.SIGABRT, "decoding ended abnormally (SIGABRT)"),
        (signal.SIGKILL, "decoding needs more than 0.6 GB of memory"),
        (signal.SIGXCPU, "decoding took longer than 20 s"),
    ],
)
def test_every_signal_is_a_sentence(number: int, words: str) -> None:
    assert words in refusal("crash", number=number)


def test_endless_recursion_is_a_sentence() -> None:
    assert "unfolding failed (RecursionError" in refusal("recurse")


def test_nothing_is_left_behind(own_places: Path) -> None:
    for name in ("refuse", "fail"):
        refusal(name)
    pid = run("leave_a_process").result
    assert list((own_places / "tmp").iterdir()) == []
    assert len(list((own_places / "logs").iterdir())) == 1
    deadline = time.monotonic() + 5
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_killed_parent_takes_its_child_and_folder_with_it(own_places: Path) -> None:
    code = (
        "from tests.guard.test_run import TIGHT, guarded\nfrom dataclasses import replace\nwith"
        " guarded('tests.guard.misbehaving:sleep', {}, subject='x', limits=replace(TIGHT, seconds=60)): pass"
    )
    place = own_places / "tmp"
    parent = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "TMPDIR": str(place)})
    while not list(place.glob(f"{PREFIX}*/stderr.log")):
        time.sleep(0.05)
    time.sleep(1.0)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 10
    while list(place.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(place.iterdir()) == []


def test_settings_of_the_host_are_read_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits_for("import").memory == 3_500_000_000
    assert limits_for("judge", memory=7_000_000_000).memory == 7_000_000_000
    monkeypatch.setenv("ANCHORPOINT_IMPORT_MEMORY_GB", "1.5")
    monkeypatch.setenv("ANCHORPOINT_IMPORT_SECONDS", "7")
    assert (limits_for("import").memory, limits_for("import").seconds) == (1_500_000_000, 7.0)
    for bad in ("many", "-1", "nan", "0"):
        monkeypatch.setenv("ANCHORPOINT_IMPORT_SECONDS", bad)
        with pytest.raises(UserError, match="ANCHORPOINT_IMPORT_SECONDS"):
            limits_for("import")


def test_a_large_file_gets_more_time_and_a_small_one_none_for_what_it_declares() -> None:
    assert [patience_with(n) for n in (0, 50_000_000, 50_000_001, 10**12)] == [1, 1, 2, 4]
    assert limits_for("judge", n_bytes=10**9).seconds == 4 * limits_for("judge").seconds
