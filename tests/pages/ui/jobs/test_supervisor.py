"""Supervision: a job that takes too long, or fills its visitor's part of the disk, is ended with the
reason.
"""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import numpy as np
import pytest

from engine.types import UserError
from pages.ui.jobs import control as jobs
from pages.ui.jobs.control import job_of
from pages.ui.jobs.tasks import TASKS
from pages.ui.jobs.worker import Desk, work
from pages.ui.parts.progress import progress_words
from pages.ui.workspace.folder import is_locked, new_id
from tests.pages.ui.jobs.test_control import wait_for


def visitor(workspace: Path) -> Path:
    folder = workspace / new_id()
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Enough to look at for longer than a second."""
    path = tmp_path / "many.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (30_000, 8, 8, 3), dtype=np.uint8))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [("JOB_SECONDS", "0.2", "took longer than 1 s"), ("VISITOR_GB", "0.001", "may take 0.001 GB")],
)
def test_a_job_beyond_its_limit_is_ended_with_the_reason(
    workspace: Path, images: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, words: str
) -> None:
    folder = visitor(workspace)
    monkeypatch.setenv(f"ANCHORPOINT_{setting}", value)
    jobs.start(folder, "check", target=str(images))
    if setting == "VISITOR_GB":  # it fills up while the job runs
        (folder / "large").write_bytes(bytes(2_000_000))
    job = wait_for(folder, "check", "interrupted")
    assert words in job.message
    deadline = time.monotonic() + 20
    while is_locked(jobs.lock_file(folder, "check")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_locked(jobs.lock_file(folder, "check"))
    if setting == "VISITOR_GB":
        with pytest.raises(UserError, match="no room left"):
            jobs.start(folder, "check", target=str(images))


def test_a_full_disk_is_the_reason_when_no_outcome_could_be_written(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = visitor(workspace)
    jobs.save_job(folder, jobs.Job("predict", new_id(), state="running", pid=1, created=time.time()))
    monkeypatch.setattr(jobs, "is_full", lambda folder: True)
    job = job_of(folder, "predict")
    assert job is not None
    assert (job.state, "disk is full" in job.message) == ("interrupted", True)


def test_a_disk_that_fills_up_fails_the_job_in_a_line(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(desk: Desk) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/secret/results.csv")

    folder, job = visitor(workspace), jobs.Job("study", new_id(), created=time.time())
    jobs.save_job(folder, job)
    monkeypatch.setitem(TASKS, "study", full)
    work(folder, "study", job.id)
    outcome = job_of(folder, "study")
    assert outcome is not None
    assert outcome.state == "failed"
    assert (
        outcome.message == "results.csv cannot be read or written (No space left on device). Check the disk."
    )


def test_a_clock_that_is_set_back_does_not_keep_a_lost_job_waiting(workspace: Path) -> None:
    folder = visitor(workspace)
    jobs.save_job(folder, jobs.Job("check", new_id(), created=time.time() + 86_400))
    job = job_of(folder, "check")
    assert job is not None
    assert job.state == "interrupted"
    assert progress_words(job)


def test_a_damaged_job_file_is_no_job(workspace: Path) -> None:
    folder = visitor(workspace)
    for damage in (b"", b"{", b"[]", b'{"kind": "check"}'):
        jobs.job_file(folder, "check").parent.mkdir(exist_ok=True)
        jobs.job_file(folder, "check").write_bytes(damage)
        assert job_of(folder, "check") is None
