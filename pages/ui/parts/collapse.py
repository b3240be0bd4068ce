"""The parts of the Collapse page: the regime in words, the picture of confidence, ties, reliability and
assumptions.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.diagnose.collapse import CollapseReport, reliability_table
from engine.rules.label_free import LABEL_FREE
from pages.ui.parts.page import ink, link, picture, plain
from pages.ui.session.state import Session
from pages.ui.show.collapse_charts import confidence_scatter, reliability_diagram
from pages.ui.show.tables import records
from pages.ui.show.words import counted, number, share

_KINDS = {
    "overconfident": "Sure and wrong",
    "underconfident": "Confidence falls with accuracy",
    "mixed": "No clear pattern",
    "healthy": "Nothing has collapsed",
}


def answer(report: CollapseReport) -> None:
    """The regime in words, and what the words rest on."""
    regime = report.regime
    with st.container(border=True):
        st.subheader(_KINDS[regime.kind], anchor=False)
        st.markdown(regime.sentence)
        basis = (
            "agreement with the teacher, a stand-in for accuracy"
            if report.is_proxy
            else f"accuracy on your {counted(report.n_labels, 'label')}"
        )
        order = "distance to the teacher" if report.is_proxy else "loss on your labels"
        st.caption(
            f"Measured by {basis}. Its correlation with confidence over candidates:"
            f" {number(regime.correlation)}. Mean confidence of the best candidate by {order}:"
            f" {share(regime.best_confidence)}; of the worst: {share(regime.worst_confidence)}."
        )
        if report.is_proxy:
            st.badge("proxy: no labels", icon=":material/info:", color="orange")


def assumption_list(report: CollapseReport) -> None:
    """Every label-free rule, greyed out where its assumption fails."""
    for verdict in report.assumptions:
        rule = LABEL_FREE[verdict.rule]
        mark = {
            True: ":green-badge[holds]",
            False: ":red-badge[fails]",
            None: ":gray-badge[cannot be judged]",
        }[verdict.holds]
        proxy = " :orange-badge[proxy]" if verdict.is_proxy else ""
        body = f"**{rule.title}** assumes that {rule.assumes}. {mark}{proxy}  \n{verdict.sentence}"
        st.markdown(
            body
            if verdict.holds is not False
            else (
                f":gray[**{rule.title}** assumes that {rule.assumes}.] {mark}{proxy} "
                f" \n:gray[{verdict.sentence}]"
            )
        )


def reliability_part(session: Session, report: CollapseReport) -> None:
    """Reliability of teacher, anchored and direct-validation pick, where labels allow it."""
    sample = session.sample
    if sample is None:
        st.info(
            "The reliability diagram and ECE need labels; there is no proxy for them.", icon=":material/lock:"
        )
        link("target", "Give a few labels")
        return
    choices = session.decision.choices
    models = {
        "teacher": None,
        "anchored": choices["ce-combo"].index,
        "direct validation": choices["val-ce"].index,
    }
    predictions = session.require_predictions()
    bins = session.keep(
        "reliability", session.decision_key, lambda: reliability_table(predictions, sample, models)
    )
    errors = bins.groupby("model", sort=False)["ece"].first()
    words = ", ".join(f"{name} {share(error)}" for name, error in errors.items())
    picture(
        f"Calibration error (ECE, 15 bins; lower is better): {words}",
        reliability_diagram(bins, ink()),
        f"On {counted(sample.n, 'label')}: with few labels, bins hold few images and the error is"
        " overstated.",
    )


def confidence_picture(report: CollapseReport) -> None:
    """Confidence against quality, one dot a candidate."""
    quality = "agrees with the teacher (proxy)" if report.is_proxy else "right on your labels, 95 % interval"
    teacher = pd.DataFrame({"confidence": [report.teacher_confidence], "quality": [report.teacher_quality]})
    n, total = report.n_collapsed, len(report.health)
    title = (
        f"{n} of {counted(total, 'candidate')} {'is' if n == 1 else 'are'} hardly better than guessing"
        if n
        else "No candidate is near guessing"
    )
    chart = confidence_scatter(report.health, teacher, chance=report.chance, quality=quality, ink=ink())
    picture(
        title, chart, "To the right and low: sure and wrong. A confidence rule would pick the rightmost dot."
    )


def tie_box(report: CollapseReport) -> None:
    """What ties do to ATC."""
    with st.container(border=True):
        st.markdown("**ATC and its ties**")
        st.caption(
            "ATC counts the images at or above a confidence threshold. Where confidence saturates at 1, `>=`"
            " counts every tied image and `>` none."
        )
        for row in records(report.atc):
            st.markdown(
                f"{row['rule']}: `>=` scores {number(row['score_loose'])} and picks"
                f" {plain(row['pick_loose'])} ({row['ties_loose']} tied); `>` scores"
                f" {number(row['score_strict'])} and picks {plain(row['pick_strict'])}."
            )
