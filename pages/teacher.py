"""Teacher: did Anchorpoint read my model correctly?"""

from __future__ import annotations

from functools import partial

import streamlit as st

from engine.family.cost import costs
from engine.types import Recipe
from pages.ui.jobs import control as jobs
from pages.ui.parts.page import next_button, page_head, picture, plain, table, user_errors
from pages.ui.parts.progress import watch_job
from pages.ui.parts.projects import load_with_care
from pages.ui.parts.teacher import input_fields, model_facts, preprocessing_form, sample_cards
from pages.ui.session.actions import (
    load_path,
    load_timm,
    load_upload,
    open_predictions,
    open_predictions_folder,
)
from pages.ui.session.state import Session, current_session
from pages.ui.show.charts import layer_bars
from pages.ui.show.tables import layer_table
from pages.ui.show.words import counted, listed, share, size


def own_model(session: Session) -> None:
    """The other ways in: a file, a timm name, a path, or predictions made elsewhere."""
    upload, timm, path, predictions = st.tabs(
        ["Upload a model", "timm name", "Path on the server", "Predictions file"]
    )
    with upload, user_errors():
        st.caption(
            "`.onnx`, `.keras`, `.h5`, `.pt2`, or `.safetensors` / `.pth` with the architecture's name."
            " Nothing inside a file is executed."
        )
        file = st.file_uploader(
            "Model file", key="model-file", max_upload_size=session.host.teacher_bytes // 10**6
        )
        facts = model_facts("upload")
        if st.button("Read this model", disabled=file is None) and file is not None:
            load_with_care(session, partial(load_upload, session, file, file.name, facts))
    with timm, user_errors():
        name = st.text_input(
            "Name of a pretrained model",
            placeholder="resnet18.a1_in1k",
            disabled=not session.host.allows_downloads,
        )
        stated = input_fields("timm")
        if st.button("Download and read", disabled=not session.host.allows_downloads):
            load_with_care(session, partial(load_timm, session, name, stated))
    with path, user_errors():
        where = st.text_input("Full path of the model file", disabled=not session.host.allows_server_paths)
        facts = model_facts("path")
        if st.button("Read from the server", disabled=not session.host.allows_server_paths):
            load_with_care(session, partial(load_path, session, where, facts))
    with predictions, user_errors():
        st.caption(
            "An `.npz` with `teacher (N,K)` and `candidates (M,N,K)` probabilities, from any framework or"
            " quantizer. It leads straight to Choose."
        )
        file = st.file_uploader(
            "Predictions file",
            type="npz",
            key="npz-file",
            max_upload_size=session.host.predictions_bytes // 10**6,
        )
        if st.button("Open these predictions", disabled=file is None) and file is not None:
            load_with_care(session, partial(open_predictions, session, file, file.name))
        if session.host.allows_server_paths:
            where = st.text_input("Or the full path of a predictions folder on this machine")
            if st.button("Open this folder", disabled=not where):
                load_with_care(session, partial(open_predictions_folder, session, where))


def understood(session: Session) -> None:
    """What was read: the answer, the picture, the numbers, and what may be changed."""
    teacher = session.teacher
    if teacher is None:
        return
    layers = layer_table(teacher)
    pre = teacher.preprocessing
    with st.container(border=True):
        st.subheader(plain(teacher.name), anchor=False)
        st.markdown(
            f"A classifier of **{counted(teacher.n_classes, 'class', 'classes')}** for images of"
            f" **{pre.height} × {pre.width}**, {size(teacher.float_bytes)} as float."
            f" **{counted(len(teacher.kernels), 'layer')}** can be quantized."
        )
        for note in teacher.notes:
            if "cannot fit" in note:
                st.warning(plain(note), icon=":material/warning:")
            else:
                st.caption(plain(note))
    small, large = costs(
        teacher,
        [Recipe(bits=bits, percentile=100.0, granularity="channel", float_ends=False) for bits in (4, 8)],
    )
    ends = layers[layers["kind"].str.startswith("first or last")]
    picture(
        f"Stored in 8 bits, the weights take {share(large)} of the float memory; in 4 bits, {share(small)}",
        layer_bars(layers),
        "Bars follow the order of the network. Orange: the first and the last layer, which stay float in"
        f" candidates that end in “-ends”; they take {listed(list(ends['size']))}, which may be too"
        " little to see.",
    )
    with st.expander("Layers as a table"):
        table(layers.drop(columns=["order"]), "layers")
    with st.expander("Preprocessing and class names"), user_errors():
        preprocessing_form(session, teacher)


session = current_session()
page_head(session, "teacher", "Did Anchorpoint read my model correctly?")
if not session.record.origin:
    st.markdown(
        "Quantizing a model gives dozens of candidates, and on data unlike the training data it is hard to"
        " tell which one to ship. Anchorpoint runs them all on **your own images**, weighs what the float"
        " model and **a few labels** say, and hands you the exact file that was judged."
    )
    st.markdown("##### Start with a sample")
    sample_cards(session)
    st.markdown("##### Or bring your own")
    own_model(session)
    st.stop()
if session.predictions is not None:
    with st.container(border=True):
        st.markdown(
            f"**{plain(session.record.title)}**: predictions of"
            f" {counted(session.predictions.n_candidates, 'candidate')} on"
            f" {counted(session.predictions.n_images, 'target image')} are ready, with"
            f" {counted(len(session.rows), 'label')}."
        )
        next_button("choose", "See the recommendation")
job = watch_job(session, "import", "Reading the model")
understood(session)
if session.teacher is None and jobs.job_of(session.folder, "import") is None:
    st.info(
        "Only predictions were given, so there is no model to describe here. Exporting needs the teacher.",
        icon=":material/info:",
    )
if session.teacher is not None:
    next_button("candidates", "Next: what can I afford?", primary=session.predictions is None)
has_failed = session.teacher is None and session.predictions is None and (job is None or not job.is_alive)
with st.expander("Load another teacher", expanded=has_failed):
    sample_cards(session)
    own_model(session)
