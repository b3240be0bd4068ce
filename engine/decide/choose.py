"""From predictions and labels to a Choice: the one entry that command line, app and study call for any rule.

Knows which rule needs what. Formulas live in rules and recommend; sentences of doubt in advice.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

import numpy as np

from engine.family.cost import SizeBudget, admissible
from engine.recommend.advice import warnings_for
from engine.recommend.auto import AUTO, CALIBRATED_RULES, NO_LABELS, calibrated_choice
from engine.rules.anchors import ANCHORS, anchor_scores
from engine.rules.consensus import consensus_scores
from engine.rules.label_free import HIGHEST_PRECISION, LABEL_FREE, estimate, precision_order
from engine.rules.prediction_powered import powered_losses
from engine.rules.statistics import CORRELATION, DISTORTION, FLOOR, PoolStatistics, pool_statistics
from engine.rules.supervised import SUPERVISED, SampleEvidence, runner_up_of, sample_evidence, select
from engine.types import Bools, Choice, Estimate, Floats, LabeledSample, LabelTrust, Predictions, UserError

RECOMMENDED = AUTO  # the rule whose pick the app and the command line put first
METHODS: tuple[str, ...] = (*CALIBRATED_RULES, *SUPERVISED, *LABEL_FREE, HIGHEST_PRECISION)
# Published rules to compare with: by name only, so that a default study and the app's table stay the paper's.
CODA, PPI = "coda", "ppi"
PEERS: tuple[str, ...] = (CODA, PPI)
_EVIDENCE = "sample-evidence"  # where a pool keeps the terms of the last labeled sample


def statistics_of(predictions: Predictions, *, floor: float = FLOOR) -> PoolStatistics:
    """Return the shared statistics of a predictions file's pool; each is made when a rule asks for it."""
    return pool_statistics(
        predictions.teacher, predictions.candidates, calibration=predictions.calibration, floor=floor
    )


def admissible_under(
    predictions: Predictions,
    budget: float | SizeBudget | None,
    *,
    max_latency: float | None = None,
    max_bytes: float | None = None,
) -> Bools | None:
    """Return the mask of candidates within a memory budget (a share of the float teacher's, or a size of the
    file), a relative time and a size of the file, or None for no limit.

    Raises UserError if the file lacks what a limit is about, or nothing fits.
    """
    masks = {
        "the memory budget": None if budget is None else _within_memory(predictions, budget),
        f"{max_latency or 0:.3g} of the teacher's time": (
            None if max_latency is None else _within_time(predictions, max_latency)
        ),
        f"{max_bytes or 0:,.0f} bytes": (
            None if max_bytes is None else _within_memory(predictions, SizeBudget(max_bytes))
        ),
    }
    given = {words: mask for words, mask in masks.items() if mask is not None}
    if not given:
        return None
    all_of_them: Bools = np.logical_and.reduce(list(given.values()))
    if not all_of_them.any():
        raise UserError(
            f"no candidate is within {' and within '.join(given)} at once. Raise one of these limits."
        )
    return all_of_them


def _within_time(predictions: Predictions, most: float) -> Bools:
    """Return the candidates that take at most this share of the float teacher's time; one that was not timed
    is not among them.
    """
    if predictions.latency is None or np.isnan(predictions.latency).all():
        raise UserError(
            "a limit on time needs the `latency` of each candidate, which this predictions file lacks. Run"
            " the family again with its times, or drop the limit."
        )
    if not most > 0:
        raise UserError(
            f"the limit on time is {most:g}; it must be a positive share of the float teacher's, e.g. 0.8."
        )
    mask: Bools = predictions.latency <= most  # nan compares as not within
    if not mask.any():
        raise UserError(
            f"no candidate takes at most {most:.3g} of the float teacher's time; the fastest takes"
            f" {np.nanmin(predictions.latency):.3g} on the processor that ran them. Raise the limit."
        )
    return mask


def _within_memory(predictions: Predictions, budget: float | SizeBudget) -> Bools:
    if isinstance(budget, SizeBudget):
        return _within(predictions.bytes, budget.n_bytes, "bytes", "bytes")
    if not budget > 0:
        raise UserError(
            f"the memory budget is {budget:g}; it must be a positive share of the float teacher, e.g. 0.22."
        )
    return _within(predictions.cost, budget, "cost", "of float memory")


def _within(sizes: Floats | None, limit: float, name: str, unit: str) -> Bools:
    if sizes is None:
        raise UserError(
            f"a memory budget needs the `{name}` of each candidate, which this predictions file lacks. Add"
            " it, or drop the budget."
        )
    mask = admissible(sizes, limit)
    if not mask.any():
        raise UserError(
            f"no candidate fits a budget of {limit:.3g}; the cheapest needs {float(sizes.min()):.3g} {unit}."
            " Raise the budget."
        )
    return mask


def choose(
    method: str,
    predictions: Predictions,
    sample: LabeledSample | None = None,
    *,
    pool: PoolStatistics | None = None,
    admissible: Bools | None = None,
    anchor: str = "pool",
    floor: float = FLOOR,
    repetition: int = 0,
    trust: LabelTrust = "normal",
) -> Choice:
    """Run one rule on predictions (and, for supervised rules, a labeled sample) and return its Choice with
    warnings.

    `pool` saves recomputing the shared statistics; `repetition` seeds the permutation control and the
    subsample anchor; `trust` says how the labels were made, which the recommendation heeds.
    """
    if method not in (*METHODS, *PEERS):
        raise UserError(f"unknown method {method!r}. Use one of: {', '.join((*METHODS, *PEERS))}.")
    if anchor not in ANCHORS:
        raise UserError(f"unknown anchor {anchor!r}. Use one of: {', '.join(ANCHORS)}.")
    if (method in SUPERVISED or method == PPI) and (sample is None or sample.n == 0):
        raise UserError(
            f"{method} needs labels and got none. Give a labels CSV, or use a label-free rule such as"
            " distortion."
        )
    if method == HIGHEST_PRECISION:
        order = precision_order(predictions.names, predictions.cost)
        return _label_free_choice(estimate(method, order, "higher", admissible), predictions)
    if method in PEERS:
        return _peer_choice(method, predictions, sample or NO_LABELS, admissible, floor)
    pool = pool or statistics_of(predictions, floor=floor)
    if method in CALIBRATED_RULES:
        pool.need(DISTORTION, CORRELATION)  # it asks for both, one after the other: one pass makes them
        return calibrated_choice(
            method, predictions, pool, sample, admissible=admissible, floor=floor, trust=trust
        )
    if method in LABEL_FREE:
        rule = LABEL_FREE[method]
        return _label_free_choice(estimate(method, rule.score(pool), rule.better, admissible), predictions)
    assert sample is not None
    evidence = _evidence(predictions, pool, sample, floor, repetition)
    if SUPERVISED[method].grid is None:  # direct validation has no anchor, so the pool stays unread
        base: Floats = np.zeros(predictions.n_candidates)
    else:
        base = anchor_scores(anchor, predictions.teacher, pool, sample, floor=floor, repetition=repetition)
    choice = select(method, evidence, base, predictions.names, admissible=admissible)
    return replace(
        choice, warnings=warnings_for(choice, n_classes=predictions.n_classes, labels=sample.labels)
    )


def _evidence(
    predictions: Predictions, pool: PoolStatistics, sample: LabeledSample, floor: float, repetition: int
) -> SampleEvidence:
    """Return the terms of S, those of the last one as they were made: six rules ask for them in turn, and a
    large family is read for them.
    """
    key = (sample.rows.tobytes(), sample.labels.tobytes(), floor, repetition)
    kept: tuple[Hashable, SampleEvidence] | None = pool.memo.get(_EVIDENCE)
    if kept is None or kept[0] != key:
        made = sample_evidence(
            predictions.teacher, predictions.candidates, sample, floor=floor, repetition=repetition
        )
        pool.memo[_EVIDENCE] = kept = (key, made)
    return kept[1]


def _peer_choice(
    method: str, predictions: Predictions, sample: LabeledSample, admissible: Bools | None, floor: float
) -> Choice:
    if method == CODA:
        verdict = estimate(method, consensus_scores(predictions.candidates, sample), "higher", admissible)
    else:
        losses = powered_losses(
            predictions.teacher, predictions.candidates, sample.rows, sample.labels, floor
        )
        verdict = estimate(method, losses, "lower", admissible)
    return replace(_label_free_choice(verdict, predictions), n_labels=sample.n)


def _label_free_choice(verdict: Estimate, predictions: Predictions) -> Choice:
    signed = verdict.scores if verdict.better == "lower" else -verdict.scores
    runner_up = runner_up_of(signed, verdict.pick)
    choice = Choice(
        method=verdict.rule,
        index=verdict.pick,
        name=predictions.names[verdict.pick],
        scores=verdict.scores,
        better=verdict.better,
        ties=verdict.ties,
        runner_up=runner_up,
        margin=None if runner_up is None else float(signed[runner_up] - signed[verdict.pick]),
    )
    return replace(choice, warnings=warnings_for(choice, n_classes=predictions.n_classes))
