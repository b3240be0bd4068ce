"""How often each candidate answers as the reference does, and whether that is more than chance.

Knows probabilities. A file at chance was most likely given images it was not made for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from engine.types import Predictions
from engine.words import listed, percent

_DEVIATIONS = 3.0  # standard deviations of an independent guess within which agreement counts as chance
_NAMED = 3  # files at chance that get a sentence each


@dataclass(frozen=True)
class Agreement:
    """Share of pool images with the same top class as the reference; `chance` is what independent answers
    with the same class shares would reach.
    """

    name: str
    share: float
    chance: float
    n_images: int

    @property
    def is_chance(self) -> bool:
        spread = math.sqrt(self.chance * (1 - self.chance) / self.n_images)
        # where the reference knows one class only, full agreement says nothing, and nothing against it
        return self.share < 1 and self.share <= self.chance + _DEVIATIONS * spread


def agreements(predictions: Predictions) -> tuple[Agreement, ...]:
    """Return the agreement of every candidate with the reference, in the candidates' order."""
    n, k = predictions.n_images, predictions.n_classes
    wanted = np.argmax(predictions.teacher, axis=1)
    shares = np.bincount(wanted, minlength=k) / n
    found = []
    for name, probs in zip(predictions.names, predictions.candidates, strict=True):
        given = np.argmax(probs, axis=1)
        chance = float(shares @ (np.bincount(given, minlength=k) / n))
        found.append(Agreement(name, float(np.mean(given == wanted)), chance, n))
    return tuple(found)


def chance_problems(found: Iterable[Agreement], reference: str) -> tuple[str, ...]:
    """Sentences on candidates that agree no more often than chance: one each for a few, one for many."""
    bad = [agreement for agreement in found if agreement.is_chance]
    if len(bad) <= _NAMED:
        return tuple(_chance_problem(agreement, reference) for agreement in bad)
    named = listed([agreement.name for agreement in bad], _NAMED)
    return (
        f"{len(bad)} files ({named}) agree with {reference} no more often than"
        " by chance: most likely their images are not prepared as they were when they were trained. State"
        " their preprocessing before trusting a choice.",
    )


def _chance_problem(agreement: Agreement, reference: str) -> str:
    return (
        f"{agreement.name} agrees with {reference} on {percent(agreement.share)} of the images, no more than"
        f" chance ({percent(agreement.chance)}): most likely its images are not prepared as they were"
        " when it was trained. State its preprocessing before trusting a choice."
    )
