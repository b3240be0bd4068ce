"""Handing the decision on: a report to download, and a read-only link that can be switched off."""

from __future__ import annotations

from dataclasses import asdict
from urllib.parse import urlsplit, urlunsplit

import streamlit as st

from engine.exports.certificate import plain as as_json
from engine.exports.decision_page import decision_page
from pages.ui.parts.page import PAGES
from pages.ui.session.grounds import brief_now
from pages.ui.session.state import SHARE, Session
from pages.ui.workspace.sharing import key_of, share, stop_sharing


def hand_on(session: Session) -> None:
    """A report as one file, and a link that shows the same to whoever has it."""
    with st.container(horizontal=True):
        st.download_button(
            "Download the report",
            lambda: decision_page(brief_now(session)).encode(),
            "decision.html",
            "text/html",
            key="get-report",
            icon=":material/description:",
            help="The decision as one page that prints well, or saves as PDF from a browser.",
            on_click="ignore",
        )
        with st.popover("Share", icon=":material/share:"):
            _link(session)


def _link(session: Session) -> None:
    key = key_of(session.folder)
    st.markdown("**A link that only shows the decision**")
    if key:
        st.code(address(st.context.url or "", key), language=None, wrap_lines=True)
        st.caption(
            "Whoever has it sees the decision as it stood when it was shared: no images, nothing to change."
        )
        if st.button("Show the decision as it is now", key="share-again", icon=":material/refresh:"):
            _share(session)
        if st.button("Switch the link off", key="share-off", icon=":material/link_off:"):
            stop_sharing(session.folder)
            st.rerun()
        return
    st.caption("It has a key of its own, shows numbers and charts but no images, and can be switched off.")
    if st.button("Make the link", key="share-on", icon=":material/link:"):
        _share(session)


def _share(session: Session) -> None:
    share(session.folder, {"brief": as_json(asdict(brief_now(session)))})
    st.rerun()


def address(url: str, key: str) -> str:
    """The shared page's address, from the address of any page of the app.

    >>> address("https://host/app/choose", "KEY")
    'https://host/app/?share=KEY'
    """
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    last = path.rpartition("/")[2]
    base = path[: len(path) - len(last)] if last in PAGES else f"{path}/"
    return urlunsplit((parts.scheme, parts.netloc, base, f"{SHARE}={key}", ""))
