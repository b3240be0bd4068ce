"""Compare: what do I gain and lose?"""

from __future__ import annotations

import streamlit as st

from pages.ui.parts.compare import by_class, gallery, overview, pick_two, settle
from pages.ui.parts.page import back_button, gate, page_head, stand_in_note, user_errors
from pages.ui.session.state import current_session

session = current_session()
page_head(session, "compare", "What do I gain and lose?")
gate(
    session.predictions is not None,
    "This page needs predictions: open a sample or a predictions file, or run the family on your images.",
    "teacher",
)
with user_errors():
    with st.spinner("Weighing the candidates …"):
        _ = session.decision
    stand_in_note(session)
    a, b = pick_two(session)
    overview(session, a, b)
    settle(session, a, b)
    by_class(session, a, b)
    gallery(session, a, b)
back_button("choose", "Back to the choice")
