"""The one Session: a visitor's work and evidence, named in the address bar, put away as projects and taken up
again.

The only file that touches `st.session_state`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from engine.types import UserError
from pages.ui.jobs import control as jobs
from pages.ui.session.evidence import Evidence
from pages.ui.session.record import Record, Step
from pages.ui.show.words import in_fields
from pages.ui.workspace.expiry import steady_now, sweep_regularly
from pages.ui.workspace.folder import RECORD, is_id, new_id, remove, sweep
from pages.ui.workspace.hosting import hosting
from pages.ui.workspace.projects import keep_copy, put_away, take_up
from pages.ui.workspace.sharing import stop_sharing

_KEY = "anchorpoint"
_QUERY = "session"
SHARE = "share"  # what a read-only link says in place of a session


class Session(Evidence):
    """One visitor's work. Reads are properties; every change goes through a method that saves and forgets
    what it invalidates.
    """

    def restart(self, **values: Any) -> None:
        """Begin again with another teacher, or with nothing at all; what was at hand is kept as a project."""
        if self.is_worth_keeping:
            self.put_away()
        stop_sharing(self.folder)  # of work that was not worth keeping; what was kept took its link along
        self.record = Record(**values)
        for step in Step:
            self._drop(step)
        self._memory.clear()
        self.save()

    # --- projects -----------------------------------------------------------------------------

    @property
    def has_own_labels(self) -> bool:
        """Whether a person gave or took in labels; those that came with the predictions can be had again."""
        given = (entry.source for change in self.book.changes for entry in change.entries.values())
        return any(source != "file" for source in given)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the work at hand holds anything that cannot be had again with one click."""
        return bool(self.record.origin) and (
            self.has_own_labels
            or bool(self.record.chosen)
            or (self.record.origin != "sample" and bool(self.teacher or self.predictions))
            or (self.folder / "predictions.npz").exists()
        )

    def attempt(self, action: Callable[[], None]) -> None:
        """Do what a dialog asked for; a user's mistake is kept for the page, which is drawn afterwards."""
        try:
            action()
        except UserError as error:
            self.complaint = in_fields(error)

    def put_away(self, *, spare: str = "") -> None:
        """Keep the work at hand as a project and begin with nothing."""
        self.save()
        jobs.stop_all(self.folder)
        put_away(self.folder, spare=spare)
        self.record = Record()
        self._memory.clear()
        self.save()

    def keep_labels(self) -> None:
        """Labels belong to their images: before the images change, a copy of the work is kept as a
        project.
        """
        if self.has_own_labels:
            keep_copy(self.folder, without=("store", "jobs", "incoming"))

    def take_up(self, project: str) -> None:
        """Go on with a project; what was at hand takes its place among them."""
        if self.is_worth_keeping:
            self.put_away(spare=project)
        else:
            self.restart()
        remove(self.folder / RECORD)
        take_up(self.folder, project)
        (self.folder / RECORD).touch()
        self._memory.clear()
        self._stamp = 0
        self.refresh()

    def limit(self, **limits: float | None) -> None:
        """Set a limit on what may be chosen. The choice stays, and so does a file that was written under
        another limit: pages say where one is over it, and a certificate says which one it was.
        """
        self.note(**limits)

    def choose(self, name: str, how: str) -> None:
        """Settle on a candidate. A file that was written before stays: its certificate says whose it is."""
        self.note(chosen=name, chosen_how=how, chosen_at=len(self.events))

    def done(self, step: Step) -> bool:
        """Whether a step has what the next one needs."""
        return {
            Step.TEACHER: bool(self.record.origin),
            Step.CANDIDATES: self.teacher is not None or self.predictions is not None,
            Step.TARGET: self.predictions is not None or bool(self.record.target),
            Step.LABELS: bool(self.rows),
            Step.RUN: self.predictions is not None,
            Step.CHOICE: bool(self.record.chosen),
            Step.EXPORT: (self.folder / "bundle.zip").exists(),
        }[step]


@st.cache_resource(scope="session", show_spinner=False, on_release=Session.let_go)
def _held(name: str, _session: Session) -> Session:
    """Tie what a session holds in memory to its open tab: Streamlit itself keeps a closed one for minutes."""
    return _session


def current_session() -> Session:
    """Return this visitor's Session: from memory, from the folder that the address names, or a new one."""
    asked = st.query_params.get(_QUERY, "")
    session: Session | None = st.session_state.get(_KEY)
    if session is None or (is_id(asked) and asked != session.folder.name):
        host = hosting()
        known = is_id(asked) and (host.root / asked / RECORD).is_file()
        if not known:
            sweep(host.root, host.expiry_seconds, steady_now())
        sweep_regularly(host.root, host.expiry_seconds)
        session = Session(host.root / (asked if known else new_id()), host)
        session.is_lost = bool(asked) and not known
        st.session_state[_KEY] = session
    _held(session.folder.name, session)
    session.refresh()
    session.stay()
    if asked != session.folder.name:
        st.query_params[_QUERY] = session.folder.name
    return session


def reset_session() -> None:
    """Forget everything this visitor did, projects included, and give them a fresh folder."""
    session: Session | None = st.session_state.pop(_KEY, None)
    if session is not None:
        jobs.stop_all(session.folder)
        remove(session.folder)
    st.query_params.pop(_QUERY, None)
