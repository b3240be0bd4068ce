"""Files a visitor already has: where they come from, what each was found to be, and the certificate of
one.
"""

from __future__ import annotations

import json

import streamlit as st

from engine.diagnose.agreement import Agreement, agreements
from engine.exports.foreign import verify_file
from engine.family.model_file import ModelFile
from pages.ui.parts.brief import made_before, why
from pages.ui.parts.page import plain, user_errors
from pages.ui.parts.progress import watch_job
from pages.ui.session.model_files import drop_files, known_files, let_compete, upload_files, use_place
from pages.ui.session.state import Session
from pages.ui.show.words import counted, share, size

_TYPES = ["onnx", "tflite", "keras", "h5", "pt2", "zip", "json"]
_RUNTIMES = {"onnxruntime": "ONNX Runtime", "litert": "LiteRT"}


def files_section(session: Session) -> None:
    """Judge files you already have: take them in, and show a card for each."""
    st.subheader("Judge files you already have", anchor=False)
    st.caption(
        "Quantized by any tool: .onnx of every kind, .tflite, .keras, .h5, .pt2. Each file runs as it is, in"
        " its own runtime; the bytes judged are the bytes you ship."
    )
    with st.expander("Add files", expanded=not session.record.files):
        _source(session)
    job = watch_job(session, "files", "Looking into the files")
    if not session.record.files or (job is not None and job.is_alive):
        return
    found = known_files(session)
    if found.models:
        _mode(session)
    agreed = _agreements(session)
    for model in found.models:
        _card(model, agreed.get(model.name))
    for refusal in found.refused:
        st.warning(f"**{plain(refusal.name)}** is left out: {plain(refusal.reason)}", icon=":material/block:")
    if st.button("Remove these files", type="tertiary"):
        drop_files(session)
        st.rerun()


def _source(session: Session) -> None:
    upload, path = st.tabs(["Upload", "Folder or zip on the server"])
    with upload, user_errors():
        files = st.file_uploader(
            "Model files, or one zip of them",
            type=_TYPES,
            accept_multiple_files=True,
            key="model-files",
            help=(
                "A NAME.json beside NAME.onnx states its own preprocessing: scale, mean, std, order, resize."
            ),
        )
        if st.button("Look into these files", disabled=not files):
            upload_files(session, files)
            st.rerun()
    with path, user_errors():
        allowed = session.host.allows_server_paths
        where = st.text_input("Path of a folder or .zip with model files", disabled=not allowed)
        if st.button("Look into this folder", disabled=not allowed):
            use_place(session, where)
            st.rerun()


def _mode(session: Session) -> None:
    both = f"with the {counted(len(session.recipes), 'recipe')}"
    picked = st.radio(
        "Who competes", ["files alone", both], index=0 if session.record.files_alone else 1, horizontal=True
    )
    if (picked == "files alone") != session.record.files_alone:
        let_compete(session, alone=picked == "files alone")
        st.rerun()


def _agreements(session: Session) -> dict[str, Agreement]:
    predictions = session.predictions
    if predictions is None:
        return {}
    found = session.keep("agreements", session.evidence_key, lambda: agreements(predictions))
    return {agreement.name: agreement for agreement in found}


def _card(model: ModelFile, agreement: Agreement | None) -> None:
    p = model.input.preprocessing
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f"**{plain(model.name)}**")
            st.caption(f"{model.format} · {_RUNTIMES[model.runtime]} · {size(model.n_bytes)}")
        colour = "grey" if p.channels == 1 else p.order
        st.caption(
            f"Takes {p.height} x {p.width} {colour}, {p.layout}, {model.input.dtype}."
            f" {plain(' '.join(model.notes))}"
        )
        if agreement is None:
            st.caption("Its agreement with the teacher shows after the run.")
        elif agreement.is_chance:
            st.markdown(
                f":material/warning: **Agrees with the teacher on {share(agreement.share)} of the images, no"
                " more than chance: most likely its images are not prepared as they were when it was"
                " trained.**"
            )
        else:
            st.markdown(f"Agrees with the teacher on **{share(agreement.share)}** of the images.")


def shipped_view(session: Session) -> None:
    """The certificate of a file that was exported as it is, and the download."""
    folder = session.folder / "export"
    path = folder / "certificate.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    found = session.keep("shipped", path.stat().st_mtime_ns, lambda: verify_file(folder))
    with st.container(border=True):
        st.subheader(plain(found.recipe or ""), anchor=False)
        if found.passed:
            judged = (
                "the file is the one that was judged" if facts["judged"] else "the file repeats its answers"
            )
            st.badge(judged, icon=":material/verified:", color="green")
        else:
            st.badge("a check failed: do not deploy", icon=":material/error:", color="red")
        if words := made_before(session, found.recipe or ""):
            st.markdown(words)
        st.markdown(
            f"{facts['file']} has **{size(facts['model']['n_bytes'])}**, for {plain(facts['runtime'])}:"
            " the very bytes that were judged."
        )
        for check in found.checks:
            st.markdown(f"- {plain(check.sentence)}")
        st.caption(f"sha256 {facts['model']['sha256']}")
        if (session.folder / "bundle.zip").exists():
            st.download_button(
                "Download the bundle",
                (session.folder / "bundle.zip").read_bytes(),
                file_name=f"{(found.recipe or 'model').replace('/', '-')}.zip",
                icon=":material/download:",
            )
    why(facts["evidence"], found.recipe or "")
