"""The parts of the Projects page, and the question before work is put away or deleted."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import streamlit as st

from engine.types import UserError
from pages.ui.parts.page import plain, user_errors
from pages.ui.session.state import Session, reset_session
from pages.ui.show.words import counted, sentence, size
from pages.ui.workspace.project_file import pack, unpack
from pages.ui.workspace.projects import (
    KEPT,
    PROJECTS,
    Project,
    delete,
    duplicate,
    next_to_go,
    projects,
    rename,
)
from pages.ui.workspace.quota import check_room

_MOST = 1_000_000_000  # bytes of a project that is offered as a download: it passes through memory


def at_hand(session: Session) -> None:
    """The work that is open now: its name, and as one file."""
    if not session.record.origin:
        st.markdown("Nothing is open now. Start on the Teacher page, or open a project.")
        return
    with st.container(border=True):
        st.markdown(f"**Open now: {plain(session.record.project or session.record.title)}**")
        st.caption(sentence(what_there_is(session)))
        name = st.text_input(
            "Name of this work", session.record.project, max_chars=60, placeholder=session.record.title
        )
        if name != session.record.project:
            session.note(project=name)
            st.rerun()
        with st.container(horizontal=True):
            download(session, "")
            if session.is_worth_keeping and st.button("Put it away", icon=":material/inbox:"):
                session.put_away()
                st.rerun()


def what_there_is(session: Session) -> str:
    """What the work at hand holds, in a line: this is what a careless click could cost."""
    parts = [counted(len(session.rows), "label")]
    if session.teacher is not None:
        parts.insert(0, "a teacher")
    if session.predictions is not None:
        parts.append(f"predictions of {counted(session.predictions.n_candidates, 'candidate')}")
    if session.record.chosen:
        parts.append(f"the choice {session.record.chosen}")
    if (session.folder / "bundle.zip").exists():
        parts.append("an exported bundle")
    return plain(", ".join(parts)) + "."


def project_list(session: Session) -> None:
    """Every project that was put away, with what can be done to it."""
    found = projects(session.folder)
    st.subheader("Put away", anchor=False)
    if not found:
        st.caption(
            f"Nothing yet. The last {KEPT} pieces of work are kept here when you load another teacher."
        )
    for project in found:
        with st.container(border=True):
            project_row(session, project)


def project_row(session: Session, project: Project) -> None:
    """One project: open, rename, duplicate, download, delete."""
    when = datetime.fromtimestamp(project.changed, UTC).strftime("%Y-%m-%d %H:%M UTC")
    chosen = f", chose {project.chosen}" if project.chosen else ""
    st.markdown(f"**{plain(project.name)}**")
    st.caption(plain(f"{when}, {size(project.n_bytes)}{chosen}"))
    with st.container(horizontal=True):
        if st.button("Open", key=f"open-{project.id}", icon=":material/folder_open:"):
            session.take_up(project.id)
            st.rerun()
        with st.popover("Rename", icon=":material/edit:"):
            name = st.text_input("Name", project.name, max_chars=60, key=f"name-{project.id}")
            if st.button("Use this name", key=f"rename-{project.id}"):
                rename(session.folder, project.id, name)
                st.rerun()
        if st.button("Duplicate", key=f"copy-{project.id}", icon=":material/content_copy:"):
            with user_errors():
                check_room(session.folder, session.host, project.n_bytes)
                duplicate(session.folder, project.id)
                st.rerun()
        download(session, project.id)
        if st.button("Delete", key=f"delete-{project.id}", icon=":material/delete:", type="tertiary"):
            ask_to_delete(session, project)


def download(session: Session, project: str) -> None:
    """The work at hand, or a project, as one file that can be opened again anywhere."""
    home = session.folder / PROJECTS / project if project else session.folder

    def packed() -> bytes:
        path = pack(home, session.folder / f".{project or 'open'}.zip")
        try:
            return path.read_bytes()
        finally:
            path.unlink()

    is_large = sum(path.stat().st_size for path in home.rglob("*") if path.is_file()) > _MOST
    st.download_button(
        "Download",
        packed,
        "project.zip",
        "application/zip",
        key=f"pack-{project}",
        icon=":material/download:",
        on_click="ignore",
        disabled=is_large,
        help=f"More than {size(_MOST)}: copy its folder on the server." if is_large else None,
    )


def from_a_file(session: Session) -> None:
    """Open a project that was downloaded, here or elsewhere."""
    st.subheader("From a file", anchor=False)
    file = st.file_uploader("Project file", type="zip", key="project-file")
    if st.button("Add this project", disabled=file is None) and file is not None:
        with user_errors():
            room = session.host.teacher_bytes + session.host.predictions_bytes
            if len(projects(session.folder)) >= KEPT:
                raise UserError(f"there are {KEPT} projects already. Delete one, then add this file.")
            check_room(session.folder, session.host, file.size)
            with st.spinner("Reading the project and its teacher…"):
                unpack(file, session.folder, room + session.host.limits.total_bytes)
            st.rerun()


@st.dialog("Delete this project?")
def ask_to_delete(session: Session, project: Project) -> None:
    """Deleting is for good, so it is asked."""
    st.markdown(f"**{plain(project.name)}**, {size(project.n_bytes)}, with its labels and results.")
    away = (session.folder, project.id)
    if st.button("Delete it", type="primary", key="delete-sure", on_click=delete, args=away):
        st.rerun()


def what_becomes_of_it(session: Session) -> None:
    """Say what is open now, that it is kept, and which project would go for it."""
    st.markdown(f"Open now: {what_there_is(session)}")
    if session.is_worth_keeping:
        going = next_to_go(session.folder)
        lost = f" The oldest one, {plain(going.name)}, is deleted then." if going else ""
        st.markdown(f"It is kept under Projects.{lost}")


def load_with_care(session: Session, load: Callable[[], None]) -> None:
    """Load another teacher: at once where nothing is lost from sight, else after a question."""
    if session.is_worth_keeping:
        ask_to_load(session, load)
        return
    load()
    st.rerun()


@st.dialog("Load another teacher?")
def ask_to_load(session: Session, load: Callable[[], None]) -> None:
    """The work at hand leaves the pages, so it is asked."""
    what_becomes_of_it(session)
    if st.button("Load it", type="primary", key="load-sure", on_click=session.attempt, args=(load,)):
        st.rerun()


@st.dialog("Start over?")
def ask_to_start_over(session: Session) -> None:
    """What becomes of the work at hand: kept as a project, or everything deleted."""
    what_becomes_of_it(session)
    if st.button("Start over", type="primary", key="start-over-sure", on_click=session.restart):
        st.rerun()
    with st.expander("Delete everything instead"):
        n = len(projects(session.folder))
        too = f" and {counted(n, 'project')}" if n else ""
        st.markdown(f"Deletes what is open now{too}, for good. This address will then lead nowhere.")
        if st.button("Delete everything", key="delete-everything", on_click=reset_session):
            st.rerun()
