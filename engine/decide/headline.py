"""What may be said above a recommendation: "Deploy", or only "Best so far", and why.

Knows a decision and what the labels say of its pick. Computes no score and changes no pick.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.decide.decision import Decision
from engine.diagnose.comparison import Quality
from engine.types import Choice
from engine.words import percent

DEPLOY, BEST_SO_FAR = "Deploy", "Best so far:"
_AN_EVEN_CHANCE = 0.5
_ENOUGH = 10  # labels; fewer cannot tell a bad teacher from bad luck


@dataclass(frozen=True)
class Headline:
    """The words before the pick's name, why they are no stronger, and whether a memory budget binds."""

    verb: str
    reasons: tuple[str, ...]
    is_bound: bool  # candidates were left out because of the budget


def headline(decision: Decision, pick: Quality | None, n_classes: int) -> Headline:
    """Return how strongly the pick may be recommended.

    It is only the best so far if its probability to be as good as the best is below one half, or if nothing
    shows that it is better than guessing. `pick` is its quality on the labels, None without any.
    """
    close = float(decision.candidates["probability_close"].iloc[decision.recommended.index])
    reasons = reservations(decision.recommended, pick, n_classes, close)
    return Headline(
        verb=BEST_SO_FAR if reasons else DEPLOY,
        reasons=reasons,
        is_bound=not bool(decision.candidates["admissible"].all()),
    )


def teacher_doubt(teacher: Quality | None, n_labels: int, n_classes: int) -> str:
    """Say that the teacher is no better than guessing on the labels; "" if it is, or too few can tell."""
    if teacher is None or n_labels < _ENOUGH or teacher.accuracy.low > 1 / n_classes:
        return ""
    is_worse = teacher.accuracy.high < 1 / n_classes
    how = "worse than guessing" if is_worse else "which could be guessing"
    return (
        f"The teacher is right on {percent(teacher.accuracy.value)} of your {n_labels} labels, {how}"
        f" ({percent(1 / n_classes)}). Check the order of the class names, the preprocessing and the labels"
        " before you deploy anything."
    )


def reservations(choice: Choice, pick: Quality | None, n_classes: int, close: float) -> tuple[str, ...]:
    """Return why a candidate may not be called more than the best so far; nothing if it may.

    `choice` is the rule's, `pick` what the labels say of the candidate (None without any), `close` the
    probability that it is as good as the best (nan where the rule does not say).
    """
    reasons = []
    if stated := choice.details.get("reservation"):
        reasons.append(str(stated))
    elif pick is not None and pick.accuracy.low <= 1 / n_classes:
        reasons.append(
            f"It is right on {percent(pick.accuracy.value)} of your labels, which could still be guessing"
            f" ({percent(1 / n_classes)}). Label more images before you deploy it."
        )
    if close < _AN_EVEN_CHANCE:
        reasons.append(
            f"The chance that it is as good as the best is only {percent(close)}: other candidates may"
            " well be"
            " better. More labels would tell."
        )
    return tuple(reasons)
