"""The parts of the Study page: which families and settings, and the tables and pictures of the result."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from engine import samples
from engine.decide.tables import CONTROLS
from engine.decide.titles import rule_title
from engine.samples import SAMPLES
from engine.study.protocol.config import STUDY_RULES
from engine.study.protocol.result import StudyResult, load_study
from engine.study.report.page import make_charts
from engine.study.tables.catalog import CATALOG, make_tables
from engine.study.tables.findings import summary
from engine.words import percent
from pages.ui.parts.page import plain, table, user_errors
from pages.ui.parts.study_charts import page_chart, show_chart
from pages.ui.session.actions import safe_name, start_study, store_upload
from pages.ui.session.state import Session
from pages.ui.session.studying import STUDY_FILES, own_name
from pages.ui.show.words import counted, listed, with_titles

_SHOWN_FIRST = 3
_DEFAULT_RULES = (
    "auto",
    "calibrated",
    "ce-combo",
    "alignment",
    "val-ce",
    "val-acc",
    "distortion",
    "softmax-corr",
    "avg-confidence",
)


def families(session: Session) -> dict[str, Path]:
    """Every family that could be studied here: the shipped samples, uploads, and the session's own if it has
    a test part.
    """
    found = {
        sample.title: samples.FOLDER / sample.predictions
        for sample in SAMPLES.values()
        if (samples.FOLDER / sample.predictions).is_file()
    }
    found |= {path.stem: path for path in sorted((session.folder / STUDY_FILES).glob("*.npz"))}
    own = session.folder / "predictions.npz"
    if own.exists() and session.require_predictions().has_test:
        found[own_name(session)] = own
    return found


def study_form(session: Session) -> None:
    """Choose families, budgets, corruption rates and rules, and start."""
    known = families(session)
    with st.expander("Add families of your own"), user_errors():
        st.caption(
            "Predictions files with a labeled test part: `teacher_test`, `candidates_test`, `labels_test`."
        )
        files = st.file_uploader(
            "Predictions files",
            type="npz",
            accept_multiple_files=True,
            key="study-uploads",
            max_upload_size=session.host.predictions_bytes // 10**6,
        )
        if st.button("Add them", disabled=not files):
            with user_errors():
                for file in files:
                    path = session.folder / STUDY_FILES / safe_name(file.name)
                    store_upload(session, file, path, session.host.predictions_bytes)
                st.rerun()
    # Families of one's own are what a study is for: they are chosen first, the samples only without them.
    own = [name for name, path in known.items() if path.parent != samples.FOLDER]
    with st.form("study", border=True), user_errors():
        chosen = st.multiselect(
            "Families", list(known), default=own or list(known)[:3], key=f"study-families-{len(own)}"
        )
        left, right = st.columns(2)
        budgets = left.multiselect(
            "Numbers of labels", [10, 25, 50, 100, 150, 300], default=[10, 25, 50, 100]
        )
        rates = right.multiselect(
            "Shares of wrong labels",
            [0.0, 0.1, 0.2, 0.3, 0.4],
            default=[0.0, 0.2],
            format_func=percent,
        )
        offered = [rule for rule in STUDY_RULES if rule not in CONTROLS]
        rules = st.multiselect(
            "Rules",
            offered,
            default=[rule for rule in _DEFAULT_RULES if rule in offered],
            format_func=rule_title,
        )
        if st.form_submit_button("Run the study", type="primary", icon=":material/science:"):
            start_study(session, [known[name] for name in chosen], sorted(budgets), sorted(rates), rules)
            st.rerun()


def study_result(session: Session) -> StudyResult | None:
    """The finished study of this session, read once."""
    path = session.folder / "study" / "results.csv"
    if not path.exists():
        return None
    return session.keep("study", path.stat().st_mtime_ns, lambda: load_study(path.parent))


def show_study(session: Session, result: StudyResult) -> None:
    """The findings in sentences, then each question with its picture and table."""
    key = (session.folder / "study" / "results.csv").stat().st_mtime_ns
    tables = session.keep("study-tables", key, lambda: make_tables(result))
    charts = session.keep(
        "study-charts",
        key,
        lambda: {name: page_chart(chart) for name, chart in make_charts(result, tables).items()},
    )
    with st.container(border=True):
        st.markdown(
            f"**{counted(len(result.families), 'family', 'families')}, {len(result.results):,} selections.**"
            " Regret is the loss given away by a choice; 0 is the best candidate, lower is better."
        )
        st.caption(plain(f"Studied: {listed([str(name) for name in result.families], 6)}."))
        for sentence in summary(result):
            st.markdown(f"- {plain(with_titles(sentence))}")
        report = session.folder / "study" / "report.html"
        if report.exists():
            st.download_button(
                "Download the report",
                report.read_bytes,
                "report.html",
                "text/html",
                key="get-report",
                icon=":material/download:",
                on_click="ignore",
            )
    if result.skipped:
        st.warning(
            "Left out:"
            f" {plain(listed([f'{skipped.family} ({skipped.reason})' for skipped in result.skipped]))}.",
            icon=":material/warning:",
        )
    shown = [item for item in CATALOG if item.name in tables]
    for place, item in enumerate(shown):
        with st.expander(item.question, expanded=place < _SHOWN_FIRST):
            st.caption(plain(item.note))
            if item.name in charts:
                show_chart(item.name, *charts[item.name])
            table(readable(tables[item.name]), f"study-{item.name}")


def readable(data: pd.DataFrame) -> pd.DataFrame:
    """Column heads in words, and rules called as on the other pages."""
    named = {
        column: data[column].map(with_titles)
        for column in ("rule", "lowest", "comparison")
        if column in data and data[column].dtype.kind not in "bif"
    }
    return (
        data.assign(**named)
        .reset_index(drop=True)
        .rename(columns=lambda name: rule_title(str(name)).replace("_", " "))
    )
