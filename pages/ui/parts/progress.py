"""A job on the page: its bar, rate, time left, cancel and resume. Polls the job's file, so a finished job is
seen without a click.
"""

from __future__ import annotations

import time

import streamlit as st

from engine.words import percent
from pages.ui.jobs import control as jobs
from pages.ui.jobs.control import Job
from pages.ui.parts.page import link, plain
from pages.ui.session.state import Session
from pages.ui.show.words import counted, duration, sentence

_POLL_SECONDS = 0.7
# Each kind of job: the page that shows it in full, and its name.
JOB_PAGES = {
    "import": ("teacher", "Reading the model"),
    "files": ("candidates", "Looking into the files"),
    "check": ("target", "Checking the images"),
    "preview": ("target", "Trying the teacher"),
    "predict": ("target", "Running the family"),
    "weigh": ("choose", "Going through the predictions"),
    "carry": ("choose", "Optimal transport"),
    "export": ("export", "Writing the file"),
    "study": ("study", "Running the study"),
}


def watch_job(session: Session, kind: str, title: str) -> Job | None:
    """Show the job of this kind if there is something to say, and return it. The page reruns when the job
    ends.
    """
    job = jobs.job_of(session.folder, kind)
    if job is None or job.state == "done":
        return job
    if job.is_alive:
        _poll(session, kind, title)
    elif job.state == "failed":
        st.error(plain(sentence(job.message)), icon=":material/error:")
    else:
        with st.container(border=True):
            st.markdown(
                f":material/pause_circle: **{title}** was {job.state}"
                + (f" at {percent(job.fraction)}" if job.total else "")
                + (f": {plain(job.message)}" if job.message else ".")
                + " What is finished is kept."
            )
            if st.button("Resume", key=f"resume-{kind}", icon=":material/play_arrow:"):
                jobs.resume(session.folder, kind)
                st.rerun()
    return job


@st.fragment(run_every=_POLL_SECONDS)
def _poll(session: Session, kind: str, title: str) -> None:
    job = jobs.job_of(session.folder, kind)
    if job is None or not job.is_alive:
        st.rerun()
    with st.container(border=True):
        st.markdown(f":material/progress_activity: **{title}**" + (f": {job.stage}" if job.stage else ""))
        if job.total:
            st.progress(job.fraction, text=progress_words(job))
        else:  # a bar that stands at 0 % looks stuck
            st.caption(progress_words(job))
        if st.button("Cancel", key=f"cancel-{kind}", icon=":material/stop_circle:", type="tertiary"):
            jobs.cancel(session.folder, kind)


def running_jobs(session: Session) -> None:
    """Every job that is at work, with its time left: on all pages, so that nobody wonders whether it goes
    on.
    """
    if any(_is_alive(session, kind) for kind in JOB_PAGES):
        _poll_all(session)


@st.fragment(run_every=3 * _POLL_SECONDS)
def _poll_all(session: Session) -> None:
    for kind, (page, title) in JOB_PAGES.items():
        job = jobs.job_of(session.folder, kind)
        if job is not None and job.is_alive:
            link(page, title)
            st.progress(job.fraction if job.total else 0.0, text=progress_words(job))


def _is_alive(session: Session, kind: str) -> bool:
    job = jobs.job_of(session.folder, kind)
    return job is not None and job.is_alive


def progress_words(job: Job) -> str:
    """Where a job stands, in words: place in the queue, share done, pace, time left."""
    if job.state == "queued":
        return _waiting(job)
    parts = [percent(job.fraction)] if job.total else []
    if job.rate:
        parts.append(f"{job.rate:,.0f} images/s")
    if job.seconds_left is not None:
        parts.append(f"about {duration(job.seconds_left)} left")
    return " · ".join(parts) or f"Working, {duration(time.time() - job.created)} so far"


def _waiting(job: Job) -> str:
    if not job.ahead:
        return "Starting"
    words = f"Waiting for {counted(job.ahead, 'other job')} to finish"
    if job.wait is None:
        return words
    return f"{words}, {'about' if job.ahead == 1 else 'at least'} {duration(job.wait)}"
