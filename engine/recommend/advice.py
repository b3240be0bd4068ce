"""Doubts in plain words: what a person should know before deploying a choice.

Reads a finished Choice. Computes no score and changes no pick.
"""

from __future__ import annotations

import numpy as np

from engine.types import Choice, Ints
from engine.words import counted

FEW_LABELS = 25  # below this the paper's supervised estimates are dominated by variance
_CALIBRATED = frozenset({"calibrated", "auto"})
_CONFIDENCE_RULES = frozenset({"avg-confidence", "entropy", "atc-mc", "atc-ne"})


def warnings_for(choice: Choice, *, n_classes: int, labels: Ints | None = None) -> tuple[str, ...]:
    """Return the sentences that belong next to this choice, most serious first."""
    warnings = [*_tie_warnings(choice), *_rule_warnings(choice)]
    if choice.method in _CALIBRATED and choice.n_labels == 0:
        warnings.append(
            "There are no labels, so nobody has checked whether the teacher itself is right on this target."
        )
    if labels is not None:
        warnings += _label_warnings(choice, n_classes, labels)
    return tuple(warnings)


def reservation(expected: float, n_classes: int, labels: Ints) -> str | None:
    """Return why the stated probabilities must not be taken at face value, if they must not: they only
    compare candidates.

    `expected` is the pick's expected loss in nats.
    """
    if len(labels) > 1 and len(np.unique(labels)) == 1:
        return (
            f"All {len(labels)} labels are of one class, so they say next to nothing. Label images of other"
            " classes before you deploy this."
        )
    guess = float(np.log(n_classes))
    if expected >= guess:
        return (
            f"Its expected loss on this target is {expected:.2f} nats, no better than guessing ({guess:.2f})."
            " The best of this family may still be useless here: check its accuracy on labels of your own"
            " before you deploy it."
        )
    return None


def _tie_warnings(choice: Choice) -> list[str]:
    if choice.ties > 1:
        return [
            f"{choice.ties} candidates share the best score; the first in the list was taken, which usually"
            " has the fewest bits."
        ]
    if choice.runner_up is None:
        return ["Only one candidate is admissible, so there was nothing to choose."]
    return []


def _rule_warnings(choice: Choice) -> list[str]:
    if choice.method in _CONFIDENCE_RULES:
        return [
            "This rule trusts confidence. Low-bit candidates can be sure and wrong; look at the"
            " Confidence collapse page before using it."
        ]
    if choice.method == "permutation-control":
        return [
            "This is a control with its labels shuffled: read it beside alignment, do not deploy its pick."
        ]
    if choice.coefficient is None or choice.grid is None:
        return []
    if choice.n_labels == 1:
        return ["One label cannot be cross-validated, so the anchor's pick was kept."]
    if choice.coefficient == 0:
        return ["The labels give no reason to leave the teacher: the pick is the anchor's own."]
    if choice.coefficient == choice.grid[-1] and choice.method == "ce-combo":
        return [
            "The coefficient is at the top of its grid: the labels overrule the teacher almost completely."
        ]
    return []


def _label_warnings(choice: Choice, n_classes: int, labels: Ints) -> list[str]:
    warnings = []
    n_seen = len(np.unique(labels))
    if choice.n_labels < FEW_LABELS:
        warnings.append(
            f"{counted(choice.n_labels, 'label is too', 'labels are')} few: the pick could change"
            " with other images."
        )
    elif n_seen <= n_classes // 2:
        warnings.append(
            f"The labels cover {n_seen} of {n_classes} classes; candidates may differ on the others."
        )
    if (
        choice.n_labels > 1 and n_seen == 1 and choice.method not in _CALIBRATED
    ):  # those say it as their reservation
        warnings.insert(0, "All labels are of one class. Label images of other classes before trusting this.")
    return warnings
