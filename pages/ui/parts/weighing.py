"""What a large family has to wait for: the job that goes through it before a page can speak of it, and the
one for optimal transport, which is made on request.
"""

from __future__ import annotations

import streamlit as st

from pages.ui.jobs import control as jobs
from pages.ui.parts.progress import watch_job
from pages.ui.session.state import Session


def wait_for_statistics(session: Session) -> None:
    """Go on at once if the family is small or was gone through; otherwise start that, show it, and stop
    here.
    """
    if session.has_statistics:
        return
    job = watch_job(session, "weigh", "Going through the predictions")
    if job is None or job.state == "done":  # done for other predictions
        stated = {"shares": session.stated_shares} if session.stated_shares else {}
        jobs.start(session.folder, "weigh", path=str(session.predictions_path), **stated)
        st.rerun()
    st.caption("This family is too large to hold. Its numbers are made once; after that every page is quick.")
    st.stop()


def ask_for_transport(session: Session) -> None:
    """The slowest rule, on request: scored at once if the family is small, by a job if it is large."""
    if session.has_transport:
        return
    if not session.record.has_transport:
        if st.button("Also score by optimal transport (slow)", type="tertiary", icon=":material/add:"):
            session.note(has_transport=True)
            st.rerun()
        return
    job = watch_job(session, "carry", "Optimal transport")
    if job is None or job.state == "done":  # done for other predictions
        jobs.start(session.folder, "carry", path=str(session.predictions_path))
        st.rerun()
