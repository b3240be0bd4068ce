"""Anchorpoint's window: the pages, and a sidebar that says how far this visitor has come."""

from __future__ import annotations

import streamlit as st

from pages.ui.parts.page import PAGES, style, user_errors
from pages.ui.parts.progress import running_jobs
from pages.ui.parts.projects import ask_to_start_over
from pages.ui.session.record import Step
from pages.ui.session.state import SHARE, Session, current_session
from pages.ui.show.words import counted

STEPS = {
    "teacher": Step.TEACHER,
    "candidates": Step.CANDIDATES,
    "target": Step.RUN,
    "choose": Step.CHOICE,
    "export": Step.EXPORT,
}


def page(session: Session, name: str) -> st.Page:
    """One entry of the navigation, ticked when its step is done."""
    title, icon = PAGES[name]
    is_done = name in STEPS and session.done(STEPS[name])
    return st.Page(
        f"pages/{name}.py",
        title=title,
        icon=":material/check_circle:" if is_done else icon,
        default=name == "teacher",
    )


def sidebar(session: Session) -> bool:
    """What was loaded, how many labels there are, what was chosen; and whether to start over was asked."""
    record = session.record
    with st.sidebar:
        if not record.origin:
            st.caption("Start with a sample or your own model on the Teacher page.")
            return False
        with st.container(border=True, gap="xsmall"):
            for name, value in {
                "Teacher": record.title,
                "Labeled": counted(len(session.rows), "image"),
                "Chosen": record.chosen or "nothing yet",
            }.items():
                st.caption(name)
                st.text(value)
        running_jobs(session)
        return st.button(
            "Start over",
            key="start-over",
            icon=":material/restart_alt:",
            type="tertiary",
            help="Begin with another teacher; you are asked first.",
        )


st.set_page_config(page_title="Anchorpoint", page_icon="⚓", layout="wide")
if SHARE in st.query_params:  # a read-only link: no session, no navigation, nothing but what was shared
    shared = st.navigation([st.Page("pages/shared.py", title="Shared")], position="hidden")
    st.html(style())
    shared.run()
    st.stop()
session = None
with user_errors():  # it may be damaged
    session = current_session()
if session is None:
    st.stop()
pages = [page(session, name) for name in PAGES]
current = st.navigation(
    {"From teacher to file": pages[:5], "Look closer": pages[5:9], "Your work": pages[9:]}
)
if wanted := session.enter():
    st.switch_page(wanted)
if sidebar(session):
    ask_to_start_over(session)
st.html(style())
with user_errors():  # what a page left unsaid, such as a full disk
    current.run()
