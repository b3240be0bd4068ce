"""Background jobs: a real process does the work, survives its parent, waits its turn, stops when asked, and
can be resumed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pages.ui.jobs import control as jobs
from pages.ui.jobs import worker
from pages.ui.jobs.control import Job, job_of, save_job, stored_job
from pages.ui.jobs.turns import queue_of
from pages.ui.jobs.worker import CancelledError, Desk
from pages.ui.parts.progress import progress_words
from pages.ui.workspace.folder import locked, new_id, read_json


def picture(seed: int, side: int = 16) -> bytes:
    """A small PNG of noise."""
    buffer = BytesIO()
    Image.fromarray(np.random.default_rng(seed).integers(0, 255, (side, side, 3), dtype=np.uint8)).save(
        buffer, "PNG"
    )
    return buffer.getvalue()


@pytest.fixture
def folder(workspace: Path) -> Path:
    made = workspace / new_id()
    made.mkdir(parents=True)
    return made


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A zip with two equal images and one that is broken."""
    path = tmp_path / "images.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {
            "a.png": picture(0),
            "b.png": picture(1),
            "c.png": picture(0),
            "d.png": b"broken",
        }.items():
            archive.writestr(name, data)
    return path


def wait_for(folder: Path, kind: str, *states: str, seconds: float = 60) -> Job:
    """Poll as the page does."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        job = job_of(folder, kind)
        if job is not None and job.state in states:
            return job
        time.sleep(0.05)
    raise AssertionError(f"still {job_of(folder, kind)}")


def test_a_process_checks_images_and_leaves_what_it_found(folder: Path, images: Path) -> None:
    jobs.start(folder, "check", target=str(images))
    wait_for(folder, "check", "done")
    checks = read_json(folder / "checks.json")
    assert checks is not None
    assert checks["n_images"] == 4
    assert [name for name, _ in checks["bad"]] == ["d.png"]
    assert checks["duplicates"] == [["a.png", "c.png"]]
    assert sorted(checks["order"]) == [0, 1, 2]
    assert checks["heights"] == [16, 16]
    assert list((folder.parent / "queue").glob("*.ticket")) == []


def test_a_users_mistake_fails_in_a_line(folder: Path, tmp_path: Path) -> None:
    jobs.start(folder, "check", target=str(tmp_path / "nowhere"))
    job = wait_for(folder, "check", "failed")
    assert "there is nothing at" in job.message


def test_an_unexpected_error_fails_with_its_last_line(folder: Path) -> None:
    jobs.start(folder, "check", nonsense=1)
    job = wait_for(folder, "check", "failed")
    assert job.message.startswith("TypeError")


def test_a_killed_worker_is_interrupted_and_resumes(folder: Path, images: Path) -> None:
    ticket = folder.parent / "queue" / "0.ticket"
    with locked(ticket):  # keeps the worker waiting in the queue, so that it can be killed there
        jobs.start(folder, "check", target=str(images))
        queued = wait_for(folder, "check", "queued")
        while (queued := job_of(folder, "check") or queued).ahead != 1:
            time.sleep(0.05)
        assert "Waiting for 1 other job" in progress_words(queued)
        os.kill(queued.pid, signal.SIGKILL)
        wait_for(folder, "check", "interrupted")
    assert ticket.exists()  # its holder is gone: the next worker clears it away
    jobs.resume(folder, "check")
    wait_for(folder, "check", "done")
    assert not ticket.exists()


def test_work_without_a_measure_says_how_long_it_has_taken() -> None:
    job = Job("import", "x", state="running", stage="reading the model", created=time.time() - 12)
    assert progress_words(job) == "Working, 12 s so far"


def test_cancel_while_waiting(folder: Path, images: Path) -> None:
    with locked(folder.parent / "queue" / "0.ticket"):
        jobs.start(folder, "check", target=str(images))
        wait_for(folder, "check", "queued")
        jobs.cancel(folder, "check")
        wait_for(folder, "check", "cancelled")


def test_a_long_job_of_another_visitor_does_not_block_a_short_one(folder: Path, images: Path) -> None:
    with locked(folder.parent / queue_of("predict") / "0.ticket"):
        jobs.start(folder, "check", target=str(images))
        wait_for(folder, "check", "done")
        assert queue_of("study") == queue_of("predict") != queue_of("import")


def test_worker_outlives_the_process_that_started_it(folder: Path, images: Path) -> None:
    code = (
        f"from pathlib import Path; from pages.ui.jobs import control; control.start(Path({str(folder)!r}),"
        f" 'check', target={str(images)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[4])
    wait_for(folder, "check", "done")


def test_a_desk_reports_and_notices_that_nobody_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(worker, "_SAVE_SECONDS", 0.0)
    job = Job("predict", new_id(), created=time.time())
    save_job(folder, job)
    desk = Desk(folder, job)
    desk.report(3, 10, stage="running", rate=20.0, seconds_left=100)
    stored = stored_job(folder, "predict")
    assert stored is not None
    assert stored.fraction == 0.3
    assert (
        progress_words(Job("predict", "x", state="running", done=3, total=10, rate=20.0, seconds_left=100))
        == "30 % · 20 images/s · about 2 min left"
    )
    save_job(folder, Job("predict", new_id(), created=time.time()))
    with pytest.raises(CancelledError):
        desk.report(4, 10)
    desk.finish("done")
    # type: ignore[union-attr]  # the newer job is left alone
    assert stored_job(folder, "predict").state == "queued"


def test_the_time_left_is_taken_from_the_pace(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that only count, as a study does, have an end in sight too."""
    job = Job("study", new_id(), created=time.time())
    save_job(folder, job)
    desk, now = Desk(folder, job), [100.0]
    monkeypatch.setattr(worker.time, "monotonic", lambda: now[0])
    desk.report(2, 10)  # two were done by an earlier run
    assert desk.job.seconds_left is None
    now[0] += 30
    desk.report(5, 10)
    assert desk.job.seconds_left == pytest.approx(50)
    desk.report(0, 4, stage="another stretch")
    assert desk.job.seconds_left is None
