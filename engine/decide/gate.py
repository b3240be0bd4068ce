"""The gate: is a candidate at most so much worse than the teacher, or than the best, and how surely?

Knows the question and the answer's words. The statistics are in `drop`, the posterior in the recommendation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from engine.decide.drop import Drop, Evidence, Readings, class_drop, readings
from engine.family.model_file import stand_in_words
from engine.recommend.auto import prepare
from engine.recommend.calibrated import calibrate, posterior_belief
from engine.recommend.trust import IN_WORDS
from engine.rules.statistics import FLOOR, PoolStatistics
from engine.rules.streaming import blocks
from engine.types import Floats, Ints, LabeledSample, LabelTrust, Predictions
from engine.words import counted, percent

Metric = Literal["loss", "accuracy"]
Against = Literal["teacher", "best"]
Status = Literal["holds", "fails", "unknown"]
METRICS: tuple[Metric, ...] = get_args(Metric)
AGAINST: tuple[Against, ...] = get_args(Against)
_EXACT = 1e-9  # rounding: a candidate is exactly as good as itself
FAR = 100_000  # more labels than this is "no number of labels"
_BELIEF_VALUES = 1 << 19  # of the posterior that are made at a time: its references take a dozen times that
_POOL_VALUES = 1 << 22  # probabilities of a model that are held: a pool that has more is read in part


@dataclass(frozen=True)
class Question:
    """What is asked: a drop of at most `max_drop` (nats of loss, or share of accuracy), so surely."""

    max_drop: float
    metric: Metric = "loss"
    against: Against = "teacher"
    confidence: float = 0.9


@dataclass(frozen=True)
class ClassDrop:
    """The drop on images labeled with one class; None where no label is of it."""

    label: int
    drop: Drop | None


@dataclass(frozen=True)
class Gate:
    """The answer: whether the claim holds, fails or cannot be told yet, how probable it is, and what would
    tell.

    more_labels is about how many further random labels would decide it, None if no number would or it is
    decided.
    """

    question: Question
    status: Status
    drop: Drop
    probability: float
    more_labels: int | None
    per_class: tuple[ClassDrop, ...]
    trust: LabelTrust = "normal"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def gate_candidate(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample,
    index: int,
    question: Question,
    *,
    trust: LabelTrust = "normal",
) -> Gate:
    """Answer the question for the candidate `index`; `trust` says how the labels were made."""
    prepared = prepare(predictions, pool)
    verdict = calibrate(prepared, sample, trust)
    rows = _looked_at(predictions, sample)
    evidence = Evidence(
        belief=np.concatenate(
            [
                posterior_belief(prepared, verdict, rows[some])
                for some in blocks(len(rows), predictions.n_classes, _BELIEF_VALUES)
            ]
        ),
        sample=replace(sample, rows=np.searchsorted(rows, sample.rows)),
        rates=verdict.rates,
        rate_weights=verdict.weights.sum(axis=1),
    )
    candidates = predictions.candidates
    own = costs(candidates[index, rows], question.metric)
    # A candidate is its own rival, too: one that stands alone is the best. Rivals are read one at a time.
    rivals = (
        [predictions.teacher[rows]]
        if question.against == "teacher"
        else (candidates[m, rows] for m in range(len(candidates)))
    )
    drops = (own - costs(probs, question.metric) for probs in rivals)
    return gate(question, drops, evidence, trust)


def _looked_at(predictions: Predictions, sample: LabeledSample) -> Ints:
    """Return the rows that stand for the pool: all of them, or of a pool too large to hold as many as fit,
    evenly spread, and the labeled ones.
    """
    n_images = predictions.n_images
    wanted = max(1, _POOL_VALUES // predictions.n_classes)
    if n_images <= wanted:
        return np.arange(n_images)
    return np.union1d(np.linspace(0, n_images - 1, wanted).astype(np.int64), sample.rows)


def costs(probs: Floats, metric: Metric, floor: float = FLOOR) -> Floats:
    """Return what each class as the truth would cost a model, (N, K): -log q, or 1 where it answers
    otherwise.
    """
    if metric == "loss":
        return np.asarray(-np.log(np.maximum(np.asarray(probs, dtype=np.float64), floor)))
    cost = np.ones(probs.shape)
    cost[np.arange(len(probs)), np.argmax(probs, axis=1)] = 0
    return cost


def gate(
    question: Question, drops: Iterable[Floats], evidence: Evidence, trust: LabelTrust = "normal"
) -> Gate:
    """Answer the question for a candidate whose cost exceeds each rival's by `drops`, (N, K) per rival.

    One rival: the teacher. Against the best, every other candidate is a rival: the claim holds if it holds
    against each of them, which needs no correction for their number, since the true best is one of them; it
    fails if it surely fails against one of them, corrected for their number (Bonferroni).
    """
    level = question.confidence
    found: list[Readings] = []
    highs: list[float] = []
    per_class: tuple[ClassDrop, ...] = ()
    for rival in drops:
        found.append(readings(rival, evidence))
        highs.append(found[-1].bound(level))
        if highs[-1] == max(highs):
            per_class = _per_class(rival, evidence, level)
    lows = [-reading.mirrored().bound(1 - (1 - level) / len(found)) for reading in found]
    estimate = float(np.clip(max(reading.centre() for reading in found), max(lows), max(highs)))
    drop = Drop(estimate=estimate, low=max(lows), high=max(highs), n=evidence.sample.n)
    return Gate(
        question=question,
        status=_status(drop, question.max_drop),
        drop=drop,
        probability=_probability(found, question.max_drop),
        more_labels=_more_labels(drop, question),
        per_class=per_class,
        trust=trust,
    )


def gate_statement(answer: Gate, *, candidate: str, reference: str | None = None) -> str:
    """Say the answer in one sentence, e.g. for a certificate; the numbers are `answer.to_dict()`. `reference`
    is what stands in for a teacher, as a predictions file names it.
    """
    question, drop = answer.question, answer.drop
    unit = "nats of loss" if question.metric == "loss" else "of accuracy"
    teacher = "the teacher" if reference is None else stand_in_words(reference)
    rival = teacher if question.against == "teacher" else "the best candidate"
    claim = f"{candidate} is at most {question.max_drop:g} {unit} worse than {rival}"
    labels = f"{counted(drop.n, 'label')} {IN_WORDS[answer.trust]}"
    if answer.status == "holds":
        return f"Signed off: {claim}, with {percent(answer.probability)} probability from {labels}."
    between = f"between {drop.low:.3g} and {drop.high:.3g} worse"
    if answer.status == "fails":
        more_than = claim.replace("at most", "more than", 1)
        return f"Not signed off: {more_than}; from {labels} it is {between}."
    more = answer.more_labels
    need = (
        "no number of labels is likely to tell"
        if more is None
        else f"about {counted(more, 'more label')} would tell"
    )
    return f"Not signed off yet: {labels} cannot tell whether {claim}; it is {between}, and {need}."


def _status(drop: Drop, max_drop: float) -> Status:
    if drop.high <= max_drop + _EXACT:
        return "holds"
    return "fails" if drop.low > max_drop else "unknown"


def _probability(found: list[Readings], max_drop: float) -> float:
    return min(reading.below(max_drop) for reading in found)


def _more_labels(drop: Drop, question: Question) -> int | None:
    """Return about how many further labels bring the nearer bound to the limit, if the estimate stays."""
    room = question.max_drop - drop.estimate
    if _status(drop, question.max_drop) != "unknown" or room == 0:
        return None
    width = (drop.high - drop.estimate) if room > 0 else (drop.estimate - drop.low)
    needed = max(drop.n, 1) * (width / abs(room)) ** 2
    return max(math.ceil(needed) - drop.n, 1) if needed < FAR else None


def _per_class(drop: Floats, evidence: Evidence, level: float) -> tuple[ClassDrop, ...]:
    """Return the drop on each class, labels as they stand."""
    labels = evidence.sample.labels
    at = drop[evidence.sample.rows, labels]
    overall = float(at.var()) if len(at) else 0.0
    return tuple(
        ClassDrop(label=label, drop=class_drop(at[labels == label], overall, level))
        for label in range(drop.shape[1])
    )
