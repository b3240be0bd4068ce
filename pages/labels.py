"""Labels: is every label right?"""

from __future__ import annotations

import streamlit as st

from pages.ui.parts.class_shares import shares_field
from pages.ui.parts.label_browser import label_browser
from pages.ui.parts.label_import import annotator_field, label_source, trust_field
from pages.ui.parts.labeling import history_buttons
from pages.ui.parts.page import back_button, gate, page_head, user_errors
from pages.ui.session.state import current_session

session = current_session()
page_head(session, "labels", "Is every label right?")
gate(
    session.predictions is not None,
    "This page needs predictions: open a sample or a predictions file, or run the family on your images.",
    "teacher",
)
with user_errors():
    label_source(session)
    trust_field(session)
    shares_field(session)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        annotator_field(session)
        history_buttons(session)
    label_browser(session)
back_button("choose", "Back to the choice")
