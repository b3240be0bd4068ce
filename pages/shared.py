"""Shared: the decision that a read-only link shows. Opens no session and changes nothing."""

from __future__ import annotations

import streamlit as st

from engine.exports.decision_page import decision_page
from engine.exports.evidence import brief_in
from pages.ui.parts.brief import brief_view
from pages.ui.parts.page import plain, user_errors
from pages.ui.session.state import SHARE
from pages.ui.workspace.hosting import hosting
from pages.ui.workspace.sharing import shared_with

st.title("Which model to deploy", anchor=False)
found = shared_with(hosting().root, st.query_params.get(SHARE, ""))
if found is None:
    st.warning(
        "Nothing is shared under this link: it was switched off, its work was deleted, or the address is"
        " incomplete. Ask whoever sent it for a new one.",
        icon=":material/link_off:",
    )
    st.stop()
with user_errors():
    brief = brief_in(found)
    assert brief is not None
    st.caption(plain(f"{brief.title} · {brief.made} · read-only"))
    brief_view(brief)
    st.download_button(
        "Download the report",
        decision_page(brief).encode(),
        "decision.html",
        "text/html",
        icon=":material/description:",
        on_click="ignore",
    )
