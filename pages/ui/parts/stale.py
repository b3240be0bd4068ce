"""What was made before the labels changed: it stays, and says so."""

from __future__ import annotations

from pages.ui.parts.page import plain
from pages.ui.session.state import Session


def since_words(session: Session, made: str, n_events: int, name: str) -> str:
    """'Chosen before 3 new labels. …' with what they changed; "" if the labels are the same."""
    since = session.since(n_events)
    if not since:
        return ""
    now = session.decision.recommended.name
    changed = (
        "It is still the recommended candidate."
        if now == name
        else f"With the labels as they are now, {plain(now)} is recommended."
    )
    return f":material/history: {made} before {since.words}. {changed}"
