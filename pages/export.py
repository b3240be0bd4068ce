"""Export: is the file what I chose?"""

from __future__ import annotations

import streamlit as st

from engine.exports.certificate import Certificate
from engine.exports.foreign import is_file_export
from pages.ui.parts.export import certificate_view, missing_teacher, order_form
from pages.ui.parts.foreign import shipped_view
from pages.ui.parts.page import gate, page_head, user_errors
from pages.ui.parts.progress import watch_job
from pages.ui.parts.share import hand_on
from pages.ui.session.state import current_session

session = current_session()
page_head(session, "export", "Is the file what I chose?")
gate(bool(session.record.origin), "This page needs a teacher and a choice.", "teacher")
reading = watch_job(session, "import", "Reading the model")
if session.teacher is None:
    if reading is None or not reading.is_alive:
        missing_teacher(session)
    st.stop()
with user_errors():
    order_form(session, session.teacher)
    job = watch_job(session, "export", "Writing and checking the file")
    if session.predictions is not None and session.has_statistics:
        hand_on(session)
    path = session.folder / "export" / "certificate.json"
    is_settled = path.exists() and not (job is not None and job.is_alive)
    if is_settled and is_file_export(path.parent):
        shipped_view(session)
    elif is_settled:
        certificate = session.keep(
            "certificate", path.stat().st_mtime_ns, lambda: Certificate.from_json(path.read_text())
        )
        certificate_view(session, certificate)
    elif job is None:
        st.caption(
            "Nothing is written yet. The file is packed, then run again in every way a user may load it, and"
            " compared with what was judged."
        )
