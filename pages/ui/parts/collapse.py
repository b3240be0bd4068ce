"""The parts of the Collapse page: the regime in words, the picture of confidence, ties, reliability and
assumptions.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.diagnose.collapse import CollapseReport, reliability_table
from engine.diagnose.collapse_words import (
    collapsed_title,
    regime_sentence,
    regime_title,
    surest_words,
)
from engine.rules.label_free import LABEL_FREE
from pages.ui.parts.page import ink, link, picture, plain
from pages.ui.session.state import Session
from pages.ui.show.collapse_charts import confidence_scatter, reliability_diagram
from pages.ui.show.tables import records
from pages.ui.show.words import counted, number, share, short_title

_FAIR = 300  # labels from which 15 bins hold enough images for their error to be taken as it is


def answer(report: CollapseReport) -> None:
    """The regime in words, and what the words rest on."""
    regime = report.regime
    with st.container(border=True):
        st.subheader(regime_title(regime), anchor=False)
        st.markdown(regime_sentence(regime))
        basis = (
            "agreement with the teacher, a stand-in for accuracy"
            if report.is_proxy
            else f"accuracy on your {counted(report.n_labels, 'label')}"
        )
        order = "distance to the teacher" if report.is_proxy else "loss on your labels"
        related = (
            f" Its correlation with confidence, over candidates: {number(regime.correlation)}."
            if regime.correlation == regime.correlation
            else ""
        )
        st.caption(
            f"Measured by {basis}.{related} Mean confidence of the best candidate by {order}:"
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
    """Reliability of the teacher and of the picks with and without an anchor, where labels allow it."""
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
        short_title("ce-combo"): choices["ce-combo"].index,
        "direct validation": choices["val-ce"].index,
    }
    predictions = session.require_predictions()
    bins = session.keep(
        "reliability", session.decision_key, lambda: reliability_table(predictions, sample, models)
    )
    errors = bins.groupby("model", sort=False)["ece"].first()
    words = ", ".join(f"{name} {share(error)}" for name, error in errors.items())
    few = ": so few that bins hold few images and the error is overstated" if sample.n < _FAIR else ""
    picture(
        f"Calibration error (ECE, 15 bins; lower is better): {words}",
        reliability_diagram(bins, list(models), ink()),
        f"On {counted(sample.n, 'label')}{few}.",
    )


def confidence_picture(report: CollapseReport, surest: int) -> None:
    """Confidence against quality, one dot a candidate; `surest` is the pick of average confidence."""
    quality = "agrees with the teacher (proxy)" if report.is_proxy else "right on your labels, 95 % interval"
    teacher = pd.DataFrame({"confidence": [report.teacher_confidence], "quality": [report.teacher_quality]})
    chart = confidence_scatter(report.health, teacher, chance=report.chance, quality=quality, ink=ink())
    pick = report.health.iloc[surest]
    said = surest_words(plain(pick["name"]), pick["confidence"], pick["quality"], is_proxy=report.is_proxy)
    corner = "sure and unlike the teacher" if report.is_proxy else "sure and wrong"
    picture(
        collapsed_title(report.n_collapsed, len(report.health), is_proxy=report.is_proxy),
        chart,
        f"To the right and low: {corner}. {said}",
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
                f" {plain(row['pick_loose'])} ({_tied(row['ties_loose'])}); `>` scores"
                f" {number(row['score_strict'])} and picks {plain(row['pick_strict'])}."
            )


def _tied(n: int) -> str:
    return "alone" if n == 1 else f"tied with {counted(n - 1, 'other')}"
