"""The parts of the Choose page: the recommendation, the picture with its dial, suspicion about labels, and
what could be wrong.
"""

from __future__ import annotations

import pandas as pd
import streamlit as st

from engine.decide.decision import Decision
from engine.decide.findings import choice_finding, memory_finding
from engine.decide.firmness import firmness_table
from engine.decide.tables import contenders, dial_table, iso_score_line
from engine.decide.titles import rule_title
from engine.types import Choice, Predictions
from engine.words import percent
from pages.ui.parts.label_advice import check_these
from pages.ui.parts.page import chart_text, ink, picture, plain
from pages.ui.session.state import Session
from pages.ui.show.charts import choice_scatter, dial_curve, memory_scatter
from pages.ui.show.tables import picks_table, records
from pages.ui.workspace.weighing import is_large

NAMED_RULES = ("auto", "ce-combo", "val-ce", "distortion", "softmax-corr", "avg-confidence")
_RATES = {0.0: "none", 0.1: "10 %", 0.2: "20 %", 0.3: "30 %", 0.4: "40 %"}


def rule_reasons(decision: Decision) -> None:
    """Each rule of the table in a sentence, by kind: too long to read in a column."""
    rules = decision.rules[decision.rules["group"] != "Control"]
    for kind, members in rules.groupby("group", sort=False):
        st.markdown(
            f"**{kind}**\n"
            + "\n".join(f"- {rule_title(row['rule'])}: {plain(row['why'])}" for row in records(members))
        )


def picture_and_dial(session: Session, decision: Decision) -> None:
    """Candidates on anchor distance against labeled loss, with the dial that trades one for the other."""
    chosen = session.record.chosen or decision.recommended.name
    if not decision.n_labels and decision.candidates["cost"].isna().all():
        st.caption(
            "These predictions have no labels and do not say what a candidate costs, so there is nothing to"
            " draw yet. Give a few labels on the Target data page."
        )
        return
    if not decision.n_labels:
        picture(
            memory_finding(decision.candidates),
            memory_scatter(
                decision.candidates, picks_table(decision, chosen, NAMED_RULES, ("cost", "distortion")), ink()
            ),
        )
        st.caption(
            "Without labels this is all there is to see. Give a few on the Target data page, and this picture"
            " shows who is right."
        )
        return
    left, right = st.columns([2, 1], gap="medium")
    combo = decision.choices["ce-combo"]
    dial = dial_table(combo)
    dial = dial.assign(
        position=range(len(dial)), pick=[decision.candidates["name"][index] for index in dial["index"]]
    )
    with right:
        at = turn_dial(session, combo, dial, decision)
    turned = dial[dial["coefficient"] == at].iloc[0]
    with left:
        is_near = st.toggle(
            "Only the better half",
            key="zoom",
            help="Leave out the half with the higher loss on your labels, to see the contenders apart.",
        )
        shown = contenders(decision.candidates, chosen) if is_near else decision.candidates
        line = iso_score_line(decision.candidates, int(turned["index"]), at)
        # no further than the candidates: a longer line would push them into a corner
        line = line[(line["loss"] <= shown["loss"].max()) & (line["distortion"] >= shown["distortion"].min())]
        picks = picks_table(decision, chosen, NAMED_RULES, ("distortion", "loss"))
        chart = choice_scatter(shown, picks[picks.index.isin(shown.index)], line, ink())
        picture(
            choice_finding(decision),
            chart,
            "Dashed: candidates on this line score the same at the dial's setting; below and left of it is"
            " better. Ringed: the choice.",
        )


def turn_dial(session: Session, combo: Choice, dial: pd.DataFrame, decision: Decision) -> float:
    """The dial from the teacher to the labels; returns the coefficient it stands at."""
    grid = list(dial["coefficient"])
    st.markdown("**How far to trust the labels**")
    st.caption(
        "This dial steers the rule CE-combo alone. The recommendation above weighs the labels by itself and"
        " does not move."
    )
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        st.caption("follow the teacher", width="content")
        st.caption("trust my labels", width="content")
    at = st.select_slider(
        "Coefficient",
        grid,
        value=combo.coefficient,
        format_func=lambda c: f"{c:g}",
        key=f"dial-{combo.n_labels}-{combo.coefficient}",
        label_visibility="collapsed",
        help=(
            "CE-combo minimises distance to the teacher + coefficient × loss on the labels. Cross-validation"
            " inside your labels sets the dial; you may turn it."
        ),
    )
    row = dial[dial["coefficient"] == at].iloc[0]
    st.markdown(
        f"At {at:g} it picks **{plain(row['pick'])}**"
        + (" (found by cross-validation)." if at == combo.coefficient else ".")
    )
    if row["pick"] not in (session.record.chosen, decision.recommended.name) and st.button(
        "Use the dial's pick", key="use-dial"
    ):
        session.choose(row["pick"], "dial")
        st.rerun()
    if combo.cv_losses is not None:
        st.altair_chart(
            dial_curve(dial, at, ink()).configure(**chart_text()),
            width="stretch",
            alt="held-out loss by coefficient",
        )
        st.caption(
            "Loss on labels held out in turn, for each setting of the dial. The large point is the best."
        )
    return float(at)


def suspicion(session: Session, decision: Decision, predictions: Predictions) -> None:
    """What becomes of each rule's pick if some labels are wrong."""
    check_these(session)
    st.markdown("**I suspect wrong labels**")
    rate = st.select_slider(
        "Share of labels that may be wrong", list(_RATES), format_func=_RATES.__getitem__, key="suspicion"
    )
    if rate == 0 or session.sample is None:
        st.caption(
            "Move the slider: we make that share of your labels wrong at random, 20 times, and choose again"
            " each time."
        )
        return
    sample, pool, admissible = session.sample, session.pool, session.admissible
    bar = st.empty()

    def show(done: int, total: int) -> None:
        bar.progress(done / total, text=f"{done} of {total} draws chosen from")

    on_progress = show if is_large(predictions) else None  # a small family answers before a bar is drawn
    firm = session.keep(
        "suspicion",
        (session.decision_key, rate),
        lambda: firmness_table(
            predictions, pool, sample, rate, admissible=admissible, on_progress=on_progress
        ),
    )
    bar.empty()
    drawn = records(firm)
    for row in drawn:
        other = f"; most often it becomes {plain(row['other'])}" if row["other"] else ""
        said = f"{rule_title(row['rule'])} keeps its pick in {percent(row['kept'])} of the draws{other}"
        st.progress(row["kept"], text=said)
    best = max(drawn, key=lambda row: row["kept"])
    st.caption(
        f"Firmest here: {rule_title(best['rule'])}. With many labels of which some are wrong, validation"
        " accuracy is the tolerant rule; with few, an anchored rule is."
    )


def doubts(decision: Decision) -> list[str]:
    """What could be wrong with the recommendation, most serious first."""
    sentences = [*decision.recommended.warnings, *decision.recommended.details.get("reasons", ())[:2]]
    direct = decision.choices.get("val-ce")
    if direct is not None and direct.name != decision.recommended.name:
        sentences.append(
            f"Direct validation would take {direct.name} instead; with few labels it follows chance more than"
            " an anchored rule does."
        )
    return sentences
