"""What a candidate of this session is taken on, and the decision in brief: the same for certificate, report
and shared page. Draws nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime

from engine.decide.brief import Brief, LabelOrigin
from engine.decide.briefing import Grounds, brief_of
from pages.ui.session.state import Session


def grounds_of(session: Session) -> Grounds:
    """Return the evidence at hand with the recommendation that rests on it."""
    decision, record, teacher = session.decision, session.record, session.teacher
    return Grounds(
        predictions=session.require_predictions(),
        choice=decision.recommended,
        sample=session.sample,
        origin=label_origin(session),
        preprocessing=None if teacher is None else teacher.preprocessing,
        path=session.predictions_path,
        limits=session.limits,
        settled_by=record.chosen_how,
        problems=session.problems,
        pool=session.pool,
        agreement=decision.candidates["agreement"].to_numpy(),
    )


def label_origin(session: Session) -> LabelOrigin:
    """Return where the labels at hand come from."""
    book = session.book
    return LabelOrigin(
        sources=dict(Counter(book.entries[row].source for row in book.rows)),
        people=book.agreement.people,
        disputed=len(book.agreement.split),
    )


def taken(session: Session) -> str:
    """Return the candidate that the decision is about: the chosen one, else the recommended one."""
    chosen = session.record.chosen
    return chosen if chosen in session.require_predictions().names else session.decision.recommended.name


def brief_now(session: Session) -> Brief:
    """Return the decision as it stands, found once per change of what it rests on."""
    name = taken(session)
    key = (session.decision_key, name, None if session.teacher is None else session.teacher.fingerprint)
    brief = session.keep("brief", key, lambda: brief_of(grounds_of(session), name))
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return replace(brief, title=session.record.project or session.record.title, made=now)
