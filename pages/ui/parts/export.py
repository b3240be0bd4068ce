"""The parts of the Export page: what to write, and the certificate of what was written."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Literal

import pandas as pd
import streamlit as st

from engine.exports.certificate import Certificate
from engine.exports.evidence import evidence_record
from engine.family.families import expected_costs
from engine.family.kinds import traits_of
from engine.family.recipes import recipe_of
from engine.samples import SAMPLES
from engine.types import Floats, TeacherFacts
from pages.ui.parts.brief import made_before, why
from pages.ui.parts.page import link, picture, plain, table, user_errors
from pages.ui.parts.stored_size import stored_note
from pages.ui.parts.teacher import model_facts
from pages.ui.session.actions import attach_teacher, source_of, start_export
from pages.ui.session.grounds import grounds_of
from pages.ui.session.model_files import known_files
from pages.ui.session.state import Session
from pages.ui.show.charts import size_bars
from pages.ui.show.words import share, size

_COPIES = {
    "packed": "packed.safetensors: bit-packed codes at their true width",
    "safetensors": "model.safetensors: float weights, a drop-in",
    "keras": "model.keras: the Keras model with these weights",
}


def missing_teacher(session: Session) -> None:
    """A predictions file says nothing about weights: ask for the teacher."""
    with st.container(border=True), user_errors():
        if session.record.sample and SAMPLES[session.record.sample].files:
            st.markdown(
                ":material/info: **These candidates are files, which ship as they are.** Open the MobileNet"
                " sample and add the files on the Candidates page to export one with its certificate."
            )
        elif session.record.sample:
            st.markdown(
                ":material/info: **This sample ships predictions only, without its teacher, so there is"
                " nothing to write a file from.** The digit samples go all the way to a file."
            )
            link("teacher", "Start with another sample")
            st.caption(
                "Whoever has the photographs can make this teacher with `python -m"
                " sample_models.photo_family` and add it here."
            )
        elif not any(traits_of(name) for name in session.require_predictions().names):
            st.markdown(
                ":material/info: **These candidates are files, which ship as they are.** Only predictions of"
                " them were given, so none can be written here. Ship the file that was judged; with the files"
                " at hand this command adds its certificate:"
            )
            st.code(file_command(session), language=None, wrap_lines=True)
            return
        else:
            st.markdown(
                ":material/info: **The file is made from the teacher's weights, and only predictions were"
                " given.** Add the teacher they came from."
            )
        file = st.file_uploader(
            "Teacher file", key="attach-file", max_upload_size=session.host.teacher_bytes // 10**6
        )
        facts = model_facts("attach")
        if st.button("Read this teacher", disabled=file is None) and file is not None:
            attach_teacher(session, file, file.name, facts)
            st.rerun()


def file_command(session: Session) -> str:
    """The command that writes a judged file with its certificate, as far as this session can know it."""
    reference = session.require_predictions().reference or "TEACHER"
    words = {
        "teacher": reference.removeprefix("candidate:"),
        "candidates-from": "FILES",
        "candidate": session.record.chosen or session.decision.recommended.name,
        "predictions": session.record.title,
        "images": "IMAGES",
        "out": "DIR",
    }
    return shlex.join(
        ["python", "-m", "engine", "export", *(w for k, v in words.items() for w in (f"--{k}", v))]
    )


def exportable(session: Session, teacher: TeacherFacts) -> tuple[list[str], Floats]:
    """The candidates that can be written, with what each costs: those judged, as far as they are made here,
    otherwise the family.
    """
    predictions = session.predictions
    if predictions is not None and predictions.cost is not None:
        ours = [i for i, name in enumerate(predictions.names) if traits_of(name) is not None]
        if ours and session.record.family != "paper":
            return [predictions.names[i] for i in ours], predictions.cost[ours]
    return [recipe.slug for recipe in session.recipes], expected_costs(teacher, session.recipes)


def order_form(session: Session, teacher: TeacherFacts) -> None:
    """Which candidate, in which forms; any candidate can be exported."""
    made, cost = exportable(session, teacher)
    files = [model.name for model in known_files(session).models]
    names = [*files, *made]
    wanted = session.record.chosen or (
        session.decision.recommended.name if session.predictions is not None else names[0]
    )
    left, right = st.columns(2, gap="medium")
    name = left.selectbox("Candidate", names, index=names.index(wanted) if wanted in names else 0)
    is_keras = source_of(session).endswith((".keras", ".h5"))
    copies = [copy for copy in _COPIES if copy != "keras" or is_keras] if recipe_of(name) else []
    formats = right.multiselect("Beside model.onnx, also write", copies, format_func=_COPIES.__getitem__)
    if session.record.chosen and name != session.record.chosen:
        st.badge("not the candidate you chose", icon=":material/warning:", color="orange")
    is_known = session.predictions is not None and session.has_statistics
    if is_known and name != (recommended := session.decision.recommended.name):
        st.caption(
            ":material/info: The certificate will say that it overrides the recommendation"
            f" {plain(recommended)}."
        )
    if name in files:
        st.caption("This candidate is a file: its very bytes are shipped, with a certificate.")
    else:
        stored_note(session, made, cost, name)
    if st.button("Write and check the file", type="primary", icon=":material/inventory_2:"):
        start_export(session, name, formats, evidence_for(session, name))
        st.rerun()


def evidence_for(session: Session, name: str) -> dict[str, object]:
    """What the certificate says about why this candidate: its own numbers, the recommendation on the evidence
    at hand, and who decided.
    """
    if session.predictions is None:
        return {}
    return evidence_record(grounds_of(session), name)


def certificate_view(session: Session, certificate: Certificate) -> None:
    """The answer, the size picture, every check, both load profiles, and the downloads."""
    sizes = certificate.sizes
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.subheader(plain(certificate.recipe), anchor=False, width="content")
            if certificate.passed:
                certified = (
                    "the file is the model that was judged"
                    if certificate.model.get("judged")
                    else "the file repeats its recipe"
                )
                st.badge(certified, icon=":material/verified:", color="green")
            else:
                st.badge("a check failed: do not deploy", icon=":material/error:", color="red")
        if words := made_before(session, certificate.recipe):
            st.markdown(words)
        st.markdown(
            f"The file {certificate.finding}. model.onnx has **{size(sizes.file)}**,"
            f" **{share(sizes.file / sizes.float_file)}** of the float file ({size(sizes.float_file)})."
        )
        downloads(session)
    why(certificate.evidence, certificate.recipe)
    bars = pd.DataFrame(
        {
            "what": ["float file", "theory: codes at their true width", "file on disk"],
            "order": [0, 1, 2],
            "bytes": [sizes.float_file, sizes.theory, sizes.file],
        }
    )
    title = f"From {size(sizes.float_file)} to {size(sizes.file)} on disk"
    picture(
        title,
        size_bars(bars.assign(size=bars["bytes"].map(size))),
        "The file also holds the graph and whole integer containers; theory counts bare codes, scales and"
        " float parts.",
    )
    st.markdown("**What was checked**")
    for check in certificate.checks:
        icon = ":green[:material/check_circle:]" if check.passed else ":red[:material/cancel:]"
        st.markdown(f"{icon} **{plain(check.name)}**: {plain(check.sentence)}")
    profiles(certificate)
    with st.expander("Evidence, versions and hash"):
        st.code(f"sha256 {certificate.sha256}\n{certificate.command}", language=None)
        st.json(
            {"evidence": dict(certificate.evidence), "versions": dict(certificate.versions)}, expanded=False
        )
        for note in certificate.notes:
            st.caption(plain(note))


def profiles(certificate: Certificate) -> None:
    """Latency and memory of each way to load the file."""
    if not certificate.profiles:
        return
    st.markdown("**Loading it: small or fast**")
    rows = pd.DataFrame(
        {
            "Load profile": [profile.name for profile in certificate.profiles],
            "Latency ↓ (ms per image)": [profile.latency_ms for profile in certificate.profiles],
            "Resident memory ↓": [size(profile.resident_bytes) for profile in certificate.profiles],
            "Load time ↓ (ms)": [profile.load_ms for profile in certificate.profiles],
        }
    )
    table(rows, "profiles")
    for profile in certificate.profiles:
        st.markdown(f"- **{plain(profile.name)}**: {plain(profile.sentence)}")


def downloads(session: Session) -> None:
    """The bundle, the bare model, and the certificate."""
    folder = session.folder / "export"
    with st.container(horizontal=True):
        offers: tuple[tuple[Path, str, Literal["primary", "secondary"]], ...] = (
            (session.folder / "bundle.zip", "Download the bundle", "primary"),
            (folder / "model.onnx", "model.onnx", "secondary"),
            (folder / "certificate.html", "certificate.html", "secondary"),
        )
        for path, label, kind in offers:
            if path.exists():
                st.download_button(
                    label,
                    path.read_bytes,
                    path.name,
                    key=f"get-{path.name}",
                    icon=":material/download:",
                    type=kind,
                    on_click="ignore",
                )
