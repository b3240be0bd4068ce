"""From predictions, labels and a rule's choice to the decision in brief.

Always about the candidate that is taken, whether or not it is the one that was recommended. Reads no file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from engine.decide.brief import (
    Brief,
    Dot,
    LabelOrigin,
    Standing,
    overrides_words,
    preprocessing_words,
)
from engine.decide.gate import Gate, Question, gate_candidate, gate_statement
from engine.decide.headline import reservations, teacher_doubt
from engine.decide.limits import Limits
from engine.decide.titles import rule_title
from engine.diagnose.comparison import Quality, labeled_rows, quality
from engine.family.model_file import stand_in_words, whole_words
from engine.recommend.trust import IN_WORDS, label_trust
from engine.rules.statistics import PoolStatistics
from engine.rules.streaming import row_tops
from engine.types import Choice, Floats, LabeledSample, LabelTrust, Predictions, Preprocessing
from engine.words import counted, percent

USUAL_DROP = 0.02  # of accuracy, against the teacher: what the gate is asked where nobody says another drop
MAX_DOTS = 1000  # candidates that one picture can show
_NOISE_SHOWS = 0.03  # share of wrong labels that the recommendation speaks of


@dataclass(frozen=True, eq=False)
class Grounds:
    """What a candidate is taken on: predictions, labels, a rule's choice, and what else is known."""

    predictions: Predictions
    choice: Choice | None = None
    sample: LabeledSample | None = None  # the labels the choice rests on
    origin: LabelOrigin = field(default_factory=LabelOrigin)
    preprocessing: Preprocessing | None = None
    path: Path | None = None  # of the predictions file
    limits: Limits = field(default_factory=Limits)  # what a candidate was allowed to take
    settled_by: str = ""  # who took the candidate: a rule, or a person
    problems: tuple[str, ...] = ()  # what speaks against deciding on these predictions at all
    pool: PoolStatistics | None = None  # of these predictions, where they are at hand: lets the gate answer
    agreement: Floats | None = None  # (M,) share of the pool with the teacher's class, where it is at hand


def brief_of(grounds: Grounds, name: str) -> Brief:
    """Return the decision to take the candidate `name`, which the predictions must hold."""
    predictions, choice, sample = grounds.predictions, grounds.choice, _given(grounds.sample)
    index = predictions.names.index(name)
    pick = _standing(grounds, index)
    overridden = choice is not None and choice.index != index
    recommended = _standing(grounds, choice.index) if choice is not None and overridden else None
    reasons, answer = _reasons(grounds, index), _gate(grounds, index)
    return Brief(
        verdict=_verdict(grounds, pick, recommended, is_firm=not reasons),
        is_firm=choice is not None and not reasons and not overridden,
        teacher=_teacher(predictions, sample),
        pick=pick,
        recommended=recommended,
        method="" if choice is None else choice.method,
        n_candidates=predictions.n_candidates,
        n_admissible=predictions.n_candidates if choice is None else int(np.isfinite(choice.scores).sum()),
        n_images=predictions.n_images,
        n_labels=0 if sample is None else sample.n,
        n_classes=predictions.n_classes,
        n_classes_labeled=0 if sample is None else len(np.unique(sample.labels)),
        trust=_trust(choice, sample),
        origin=grounds.origin,
        sign_off=""
        if answer is None
        else gate_statement(answer, candidate=name, reference=grounds.predictions.reference),
        concerns=_concerns(grounds, reasons, answer),
        limits=grounds.limits,
        preprocessing="" if grounds.preprocessing is None else preprocessing_words(grounds.preprocessing),
        whole=whole_words(grounds.predictions.reference),
        dots=_dots(grounds, sample),
    )


def _given(sample: LabeledSample | None) -> LabeledSample | None:
    return sample if sample is not None and sample.n else None


def _quality(probs: Floats, sample: LabeledSample | None) -> Quality | None:
    return None if sample is None else quality(labeled_rows(probs, sample), sample.labels)


def _teacher(predictions: Predictions, sample: LabeledSample | None) -> Standing:
    found = _quality(predictions.teacher, sample)
    reference = predictions.reference
    name = "the float teacher" if reference is None else f"{stand_in_words(reference)}, a stand-in"
    return Standing(
        name=name,
        accuracy=None if found is None else found.accuracy,
        loss=None if found is None else found.loss,
    )


def _standing(grounds: Grounds, index: int) -> Standing:
    predictions = grounds.predictions
    found = _quality(predictions.candidates[index], _given(grounds.sample))
    if grounds.agreement is not None:
        agreement = float(grounds.agreement[index])
    else:
        answers, own = (row_tops(probs)[0] for probs in (predictions.candidates[index], predictions.teacher))
        agreement = float(np.mean(answers == own))
    return Standing(
        name=predictions.names[index],
        accuracy=None if found is None else found.accuracy,
        loss=None if found is None else found.loss,
        agreement=agreement,
        memory=_at(predictions.cost, index),
        latency=_at(predictions.latency, index),
        probability=_probability(grounds.choice, index),
    )


def _at(values: Floats | None, index: int) -> float | None:
    return None if values is None or not np.isfinite(values[index]) else float(values[index])


def _probability(choice: Choice | None, index: int) -> float | None:
    """Return how likely a candidate is as good as the best; None where it was not admitted or nobody says."""
    if choice is None or "probability_close" not in choice.details or not np.isfinite(choice.scores[index]):
        return None
    value = choice.details["probability_close"][index]
    return None if value is None or not math.isfinite(value) else float(value)


def _reasons(grounds: Grounds, index: int) -> tuple[str, ...]:
    if grounds.choice is None:
        return ()
    found = _quality(grounds.predictions.candidates[index], _given(grounds.sample))
    close = _probability(grounds.choice, index)
    return reservations(
        grounds.choice, found, grounds.predictions.n_classes, math.nan if close is None else close
    )


def _verdict(grounds: Grounds, pick: Standing, recommended: Standing | None, *, is_firm: bool) -> str:
    if grounds.choice is None:
        return f"{pick.name} was named directly: no rule recommends it."
    if recommended is not None:
        return f"{overrides_words(pick, recommended)}."
    n = grounds.choice.n_labels
    evidence = f"with {counted(n, 'label')}" if n else "without any label"
    sure = (
        ""
        if pick.probability is None
        else f" as good as the best with {percent(pick.probability)} probability"
    )
    lead = f"Deploy {pick.name}" if is_firm else f"Best so far: {pick.name}"
    return (
        f"{lead}. {rule_title(grounds.choice.method)} recommends it out of"
        f" {counted(int(np.isfinite(grounds.choice.scores).sum()), 'candidate')} {evidence}"
        + (f"; it is{sure}." if sure else ".")
    )


def _gate(grounds: Grounds, index: int) -> Gate | None:
    """Ask the gate the usual question, of the candidate that is taken; None where it cannot be asked."""
    sample = _given(grounds.sample)
    if sample is None or grounds.pool is None:
        return None
    question = Question(max_drop=USUAL_DROP, metric="accuracy")
    trust = _label_trust(grounds.choice)
    return gate_candidate(grounds.predictions, grounds.pool, sample, index, question, trust=trust)


def _label_trust(choice: Choice | None) -> LabelTrust:
    """Return how the labels were said to be made, as the choice took them."""
    return label_trust(str((choice.details if choice is not None else {}).get("label_trust", "normal")))


def _trust(choice: Choice | None, sample: LabeledSample | None) -> str:
    if sample is None:
        return "There are no labels: nobody has checked the answers on this target."
    rate = None if choice is None else choice.details.get("error_rate")
    if rate is None:
        return "The labels were taken as they are."
    made = f"They were taken as {IN_WORDS[_label_trust(choice)]}."
    if rate < _NOISE_SHOWS:
        return f"{made} No wrong labels show."
    return f"{made} About {percent(rate)} of them seem wrong; the recommendation allows for that."


def _concerns(grounds: Grounds, reasons: tuple[str, ...], answer: Gate | None) -> tuple[str, ...]:
    warnings = () if grounds.choice is None else grounds.choice.warnings
    disputed = grounds.origin.disputed
    people = (f"People gave different labels to {counted(disputed, 'image')}.",) if disputed else ()
    sample = _given(grounds.sample)
    teacher = _quality(grounds.predictions.teacher, sample)
    doubt = teacher_doubt(teacher, 0 if sample is None else sample.n, grounds.predictions.n_classes)
    first = [doubt] if doubt else []
    reference = grounds.predictions.reference
    if answer is not None and answer.status == "fails":
        low, high = (f"{100 * value:.1f}" for value in (answer.drop.low, answer.drop.high))
        rival = "the teacher" if reference is None else stand_in_words(reference)
        first.append(f"It is less accurate than {rival}, by {low} to {high} percentage points.")
    if sample is None and grounds.choice is None:
        first.append("No labels were looked at, so nobody knows how often it is right.")
    if reference is not None:
        first.append(f"There is no float teacher: {stand_in_words(reference)} stands in for it.")
    stated = _stated_shares(grounds.choice)
    return tuple(dict.fromkeys((*first, *reasons, *warnings, *stated, *grounds.problems, *people)))


def _stated_shares(choice: Choice | None) -> tuple[str, ...]:
    if choice is None or choice.details.get("class_shares") != "stated":
        return ()
    return (
        "How frequent the classes are was stated, not measured. If the target's classes are distributed"
        " otherwise, another candidate may be better.",
    )


def _dots(grounds: Grounds, sample: LabeledSample | None) -> tuple[Dot, ...]:
    predictions = grounds.predictions
    if predictions.cost is None or predictions.n_candidates > MAX_DOTS:
        return ()
    if sample is not None:
        answers = np.argmax(np.asarray(predictions.candidates[:, sample.rows]), axis=2)
        heights = np.mean(answers == sample.labels, axis=1)
    elif grounds.agreement is not None:
        heights = grounds.agreement
    else:
        return ()
    return tuple(
        Dot(name=name, memory=float(memory), height=float(height))
        for name, memory, height in zip(predictions.names, predictions.cost, heights, strict=True)
        if np.isfinite(memory)
    )
