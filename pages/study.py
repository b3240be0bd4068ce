"""Study: does this hold on my models?"""

from __future__ import annotations

import streamlit as st

from pages.ui.parts.page import page_head, user_errors
from pages.ui.parts.progress import watch_job
from pages.ui.parts.study import families, show_study, study_form, study_result
from pages.ui.session.state import current_session

session = current_session()
page_head(session, "study", "Does this hold on my models?")
st.markdown(
    "A study knows every label, so it can measure what a choice really cost. It repeats the choice many times"
    " with few labels, some of them wrong, and compares each rule's pick with the best candidate on a test"
    " part that no rule has seen."
)
with user_errors():
    job = watch_job(session, "study", "Running the study")
    is_running = job is not None and job.is_alive
    result = study_result(session)
    if not is_running:
        with st.expander("Families and settings", expanded=result is None):
            if not families(session):
                st.info(
                    "No family with a test part is here yet. The shipped samples have one; so may your own"
                    " predictions files.",
                    icon=":material/info:",
                )
            study_form(session)
    if result is not None and not is_running:
        show_study(session, result)
