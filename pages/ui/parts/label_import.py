"""Labels from elsewhere: the sample's own, class folders, or a CSV that is compared before it is taken in."""

from __future__ import annotations

import hashlib

import streamlit as st

from engine.recommend.advice import FEW_LABELS
from engine.recommend.trust import IN_WORDS
from engine.target import labels_from_folders
from engine.target.label_book import Comparison, How, compare_labels
from engine.target.labels import LabelLines, parse_label_lines
from engine.types import LABEL_TRUSTS, UserError
from pages.ui.parts.page import plain, user_errors
from pages.ui.session.actions import safe_name
from pages.ui.session.label_space import space_of
from pages.ui.session.labels import labels_csv, labels_of_folders, reveal_labels, take
from pages.ui.session.state import Session
from pages.ui.show.words import counted, in_fields

_LISTED = 50  # unreadable lines shown; the rest is counted
_HOW: dict[How, str] = {
    "keep": "Add the new ones; where both have one, keep mine",
    "take": "Add the new ones; where they differ, take the file's",
    "replace": "Replace all my labels with the file's",
}


def label_source(session: Session) -> None:
    """Labels from the sample, class folders or a CSV, and all of them as a download; typing comes below."""
    with user_errors():
        _from_the_file(session)
    with st.container(horizontal=True):
        has_folders = bool(session.checks and session.checks["class_folders"]) and not folder_problem(session)
        if has_folders and st.button(
            f"Take {FEW_LABELS} labels from the class folders", icon=":material/folder:"
        ):
            with user_errors():
                labels_of_folders(session, FEW_LABELS)
                st.rerun()
        with st.popover("Labels from a CSV", icon=":material/upload_file:"), user_errors():
            _from_a_csv(session)
        if session.rows:
            st.download_button(
                "Download labels",
                lambda: labels_csv(session).encode(),
                "labels.csv",
                "text/csv",
                key="get-labels",
                icon=":material/download:",
                on_click="ignore",
            )


def folder_problem(session: Session) -> str:
    """Why the class folders cannot be this teacher's classes; "" if they can, or if there are none."""
    if not (session.checks or {}).get("class_folders"):
        return ""

    def problem() -> str:
        try:
            labels_from_folders(session.images, session.class_names)
        except UserError as error:
            return f"The class folders do not fit the teacher: {in_fields(error)}"
        return ""

    return session.keep("folder-problem", (session.target_key, session.class_names), problem)


def _from_the_file(session: Session) -> None:
    """A fully labeled pool: take some of its labels, as if only those had been collected."""
    predictions = session.predictions
    if predictions is None or not bool((predictions.labels >= 0).all()):
        return
    known = [n for n in (0, 10, 25, 50, 100, 150, 300) if n <= predictions.n_images]
    taken = sum(entry.source == "file" for entry in session.book.entries.values())
    current = taken if taken in known else None
    n = st.segmented_control(
        "Labels known from the file",
        known,
        default=current,
        key=f"reveal-{current}",
        help=(
            "This pool is fully labeled. Take a few labels, as if only those had been collected. Labels you"
            " gave yourself stay."
        ),
    )
    if n is not None and n != current:
        reveal_labels(session, n)
        st.rerun()


def _from_a_csv(session: Session) -> None:
    st.caption("Columns `row,label` or `file,label`; a label is a class number or a class name.")
    file = st.file_uploader("Labels CSV", type="csv", key="labels-csv", max_upload_size=16)
    if file is None:
        return
    data, name = file.getvalue(), safe_name(file.name)
    lines = session.keep(
        "incoming-labels",
        (hashlib.sha256(data).hexdigest(), name, session.evidence_key, session.class_names),
        lambda: parse_label_lines(data, name=name, space=space_of(session)),
    )
    merge_form(session, lines, name)


def merge_form(session: Session, lines: LabelLines, name: str) -> None:
    """What a labels file would change, line by line and in numbers, and how to take it in."""
    found = compare_labels(session.book, lines.sample)
    st.markdown(comparison_words(found, len(lines.problems)))
    if lines.problems:
        with st.expander(f"{counted(len(lines.problems), 'line')} left out", icon=":material/warning:"):
            st.text("\n".join(lines.problems[:_LISTED]))
            if len(lines.problems) > _LISTED:
                st.caption(f"and {counted(len(lines.problems) - _LISTED, 'more line')}")
    if not (found.new or found.conflicts):  # nothing to take: the file says what is known, or nothing
        return
    how: How = "keep"
    if found.conflicts or found.only_mine:
        how = st.radio("You already have labels", list(_HOW), format_func=_HOW.__getitem__, key="merge-how")
        if how == "replace" and found.only_mine:
            lost = counted(len(found.only_mine), "label of yours is", "labels of yours are")
            st.caption(f"{lost} not in the file and would go. Undo brings them back.")
    if st.button("Take these labels", type="primary", key="merge-take"):
        n_new, n_other = len(found.new), len(found.conflicts)
        n = {"keep": n_new, "take": n_new + n_other, "replace": lines.sample.n}[how]
        take(session, lines.sample, how, source="csv", words=f"{counted(n, 'label')} from {name}")
        st.toast(f"You now have {counted(len(session.rows), 'label')}.")
        st.rerun()


def comparison_words(found: Comparison, n_problems: int) -> str:
    """'12 labels are new, 10 the same as yours, 8 differ from yours; 2 lines cannot be read.'"""
    groups = (
        (len(found.new), "is new", "are new"),
        (len(found.same), "is the same as yours", "are the same as yours"),
        (len(found.conflicts), "differs from yours", "differ from yours"),
    )
    parts = [(n, one, several) for n, one, several in groups if n]
    said = ", ".join(
        counted(n, f"label {one}", f"labels {several}") if place == 0 else counted(n, one, several)
        for place, (n, one, several) in enumerate(parts)
    )
    said = said or "No label could be read"
    bad = counted(n_problems, "line cannot be read", "lines cannot be read")
    return f"{said}; {bad}." if n_problems else f"{said}."


def trust_field(session: Session) -> None:
    """How were these labels made? What is held of wrong labels follows from it; the certificate says it."""
    trusts = list(LABEL_TRUSTS)
    wanted = st.segmented_control(
        "How were these labels made?",
        trusts,
        default=session.trust,
        format_func=lambda trust: IN_WORDS[trust],
        key=f"trust-{session.trust}",
        help=(
            "Checked: no label is called wrong, and doubt is about the teacher. Crowd: a share of wrong"
            " labels is expected."
        ),
    )
    if wanted is not None and wanted != session.trust:
        session.note(label_trust=wanted)
        st.rerun()


def annotator_field(session: Session) -> None:
    """Whose labels these are, and how far people agree; optional."""
    name = st.text_input(
        "Your name (optional)",
        session.record.annotator,
        max_chars=40,
        key="annotator",
        help="Kept with each label you give from now on, and in the downloaded CSV.",
    )
    if name != session.record.annotator:
        session.note(annotator=name)
    agreement = session.book.agreement
    if agreement.shared:
        agreed = agreement.shared - len(agreement.split)
        st.caption(
            f"{plain(', '.join(agreement.people))}: {counted(agreement.shared, 'image')} labeled by more than"
            f" one person, {agreed} of them alike."
        )
