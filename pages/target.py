"""Target data: is my evidence fit to decide?"""

from __future__ import annotations

import streamlit as st

from pages.ui.jobs import control as jobs
from pages.ui.parts.class_shares import shares_field
from pages.ui.parts.label_import import label_source, trust_field
from pages.ui.parts.labeling import labeling_desk
from pages.ui.parts.page import (
    evidence_fitness,
    gate,
    link,
    next_button,
    page_head,
    teacher_warning,
    user_errors,
)
from pages.ui.parts.preview import preview_box
from pages.ui.parts.progress import watch_job
from pages.ui.parts.target import (
    checks_box,
    class_balance,
    image_source,
    run_box,
    summary,
    thumbnails,
)
from pages.ui.session.state import current_session

session = current_session()
page_head(session, "target", "Is my evidence fit to decide?")
gate(bool(session.record.origin), "This page needs a teacher, or predictions.", "teacher")
reading = watch_job(session, "import", "Reading the model")
gate(
    session.teacher is not None
    or session.predictions is not None
    or (reading is not None and reading.is_alive),
    "The teacher has not been read yet.",
    "teacher",
)
with user_errors():
    summary(session)
    teacher_warning(session)
    st.subheader("Images", anchor=False)
    if session.teacher is not None:
        with st.expander("Choose the target images", expanded=not session.record.target):
            image_source(session)
    checking = watch_job(session, "check", "Checking the images")
    if session.has_images and (checking is None or not checking.is_alive):
        checks_box(session)
        thumbnails(session)
        if session.teacher is not None and (session.folder / "teacher.onnx").exists():
            preview_box(session, session.teacher)
    elif session.predictions is not None and not session.has_images:
        st.caption(
            "These predictions come without their images, so there is nothing to look at; labels can be given"
            " by row."
        )

ready = session.predictions is not None or (
    session.teacher is not None and session.has_images and not (checking is not None and checking.is_alive)
)
if ready:
    with user_errors():
        st.subheader("A few labels", anchor=False)
        label_source(session)
        trust_field(session)
        shares_field(session)
        if session.has_images:
            with st.container(border=True):
                labeling_desk(session)
        class_balance(session)
        if session.predictions is not None and session.rows:
            link("labels", "Look through the labels and correct them")

if session.teacher is not None and session.has_images:
    st.subheader("Run the family", anchor=False)
    job = watch_job(session, "predict", "Running the family")
    if job is None or not job.is_alive:
        with user_errors():
            run_box(session, jobs.job_of(session.folder, "predict"))
if session.predictions is not None:
    evidence_fitness(session)
    next_button("choose", "Next: choose")
