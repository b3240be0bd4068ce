"""The answer of the Choose page in one card: what to deploy, how good it is, how sure that is, ways to go
on.
"""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

from engine.decide.decision import Decision
from engine.decide.headline import Headline, headline
from engine.decide.titles import rule_title
from engine.diagnose.comparison import Interval, Quality
from pages.ui.parts.page import link, plain
from pages.ui.parts.stale import since_words
from pages.ui.parts.stored_size import memory_of, others_table, stored_note
from pages.ui.session.state import Session
from pages.ui.show.tables import column_formats
from pages.ui.show.words import counted, listed, number, share, size


def recommendation(session: Session, decision: Decision) -> None:
    """The recommended candidate, accuracy before loss, its doubts, and three ways to go on."""
    choice = decision.recommended
    table = decision.candidates
    pick = table.iloc[choice.index]
    said = headline(decision, session.quality(choice.index), session.require_predictions().n_classes)
    with st.container(border=True):
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.subheader(f"{said.verb} {plain(choice.name)}", anchor=False, width="content")
            badges(session, pick, said)
        for reason in said.reasons:
            st.warning(plain(reason), icon=":material/warning:")
        stored_note(session, table["name"], table["cost"].to_numpy(), choice.name)
        if measured := quality_words(session.quality(None), session.quality(choice.index)):
            st.markdown(measured)
        st.markdown(reason_words(decision, pick))
        if sure := doubt_words(session, decision, is_firm=not said.reasons):
            st.markdown(sure)
        if said.reasons:
            link("target", "Label more images")
        ways_on(session, decision, is_firm=not said.reasons)
    if session.record.chosen:
        chosen_card(session, decision)


def badges(session: Session, pick: pd.Series, said: Headline) -> None:
    """What it takes, and that a budget kept others out."""
    if memory := memory_of(session, float(pick["cost"])):
        st.badge(memory, color="primary")
    limits = session.limits
    bounds = (
        "" if limits.memory is None else share(limits.memory),
        "" if limits.n_bytes is None else f"a file of {size(limits.n_bytes)}",
        "" if limits.latency is None else f"{limits.latency:.2f} × the time",
    )
    if said.is_bound and any(bounds):
        words = listed([bound for bound in bounds if bound])
        st.badge(f"best within {words}", icon=":material/filter_alt:", color="orange")


def quality_words(teacher: Quality | None, pick: Quality | None) -> str:
    """Accuracy of pick and teacher with 95 % intervals first, then loss; nothing without labels."""
    if teacher is None or pick is None:
        return ""
    return (
        f"Right on **{_shares(pick.accuracy)}** of your labels; the teacher on {_shares(teacher.accuracy)}."
        f" Loss **{_numbers(pick.loss)}**; the teacher's {_numbers(teacher.loss)} (nats, lower is better)."
        " In brackets: 95 % intervals."
    )


def _shares(value: Interval) -> str:
    return f"{share(value.value)} ({100 * value.low:.0f} to {100 * value.high:.0f} %)"


def _numbers(value: Interval) -> str:
    return f"{number(value.value)} ({number(value.low)} to {number(value.high)})"


def reason_words(decision: Decision, pick: pd.Series) -> str:
    """One sentence: who picks it, from what, and how close it stays to the teacher."""
    choice = decision.recommended
    evidence = f"with {counted(choice.n_labels, 'label')}" if choice.n_labels else "without any label"
    return (
        f"**{rule_title(choice.method)}** picks it {evidence}. It gives the teacher's class on"
        f" {share(pick['agreement'])} of the pool."
    )


def doubt_words(session: Session, decision: Decision, *, is_firm: bool) -> str:
    """How sure the recommendation is, and what else would do."""
    pick = decision.candidates.iloc[decision.recommended.index]
    if pick["probability_close"] != pick["probability_close"]:
        return ""
    details, probability = decision.recommended.details, share(pick["probability_close"])
    words = (
        f"It is as good as the best (within {details['epsilon']:g} nats of its loss) with"
        f" {f'**{probability}**' if is_firm else probability} probability."
    )
    if decision.same:
        others = counted(len(decision.same), "other candidate is", "other candidates are")
        words += f" {others} as good, for all we know"
        if decision.cheapest is not None:
            cheap = decision.candidates.iloc[decision.cheapest]
            memory = memory_of(session, float(cheap["cost"]))
            words += f"; the cheapest of them is {plain(cheap['name'])} ({memory})"
        words += "."
    return words


def ways_on(session: Session, decision: Decision, *, is_firm: bool) -> None:
    """Take it, take the cheapest as good, overrule it, or look at the others."""
    table = decision.candidates
    with st.container(horizontal=True):
        kind: Literal["primary", "secondary"] = "primary" if is_firm else "secondary"
        if st.button("Use this", type=kind, icon=":material/check:", key="use-recommended"):
            session.choose(decision.recommended.name, "recommended")
            st.rerun()
        if decision.cheapest is not None and st.button(
            "Use the cheapest that is as good", key="use-cheapest", icon=":material/savings:"
        ):
            session.choose(table["name"][decision.cheapest], "cheapest")
            st.rerun()
        another_button(session, decision)
        others_button(session, decision)


def another_button(session: Session, decision: Decision) -> None:
    """Let a person overrule: any candidate can be chosen."""
    with st.popover("Choose another", icon=":material/edit:"):
        inside = list(decision.candidates[decision.candidates["admissible"]]["name"])
        first = decision.recommended.name
        # The key names the recommendation, so that a new one is what the list opens on.
        name = st.selectbox("Candidate", inside, index=inside.index(first), key=f"own-candidate-{first}")
        if st.button("Use this candidate", key="use-own"):
            session.choose(name, "own")
            st.rerun()


def others_button(session: Session, decision: Decision) -> None:
    """Show which candidates are as good as the recommended one."""
    if not decision.same:
        return
    with st.popover(
        "See the other one" if len(decision.same) == 1 else f"See the {len(decision.same)} others",
        icon=":material/list:",
    ):
        st.caption("As good as the recommended one, for all we know. Cheapest first.")
        shown = others_table(session, decision.candidates, decision.same)
        st.dataframe(shown, hide_index=True, column_config=column_formats(shown))


def is_within(decision: Decision, name: str) -> bool:
    """Whether a candidate stays within the limits as they are now."""
    return name in set(decision.candidates["name"][decision.candidates["admissible"]])


def chosen_card(session: Session, decision: Decision) -> None:
    """What was settled, whether the labels moved on since, and a warning if it is not what is recommended."""
    record = session.record
    is_recommended = record.chosen == decision.recommended.name
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":material/check_circle: Chosen: **{plain(record.chosen)}**")
        if not is_recommended:
            st.badge("not the recommended candidate", icon=":material/warning:", color="orange")
        if not is_within(decision, record.chosen):
            st.badge("over a limit you set", icon=":material/warning:", color="orange")
        st.page_link("pages/export.py", label="Export it", icon=":material/inventory_2:")
    if words := since_words(session, "Chosen", record.chosen_at, record.chosen):
        st.caption(words)
    if not is_recommended:
        stored_note(
            session, decision.candidates["name"], decision.candidates["cost"].to_numpy(), record.chosen
        )
