"""`gate`: is this candidate at most so much worse than the teacher or the best? Exit 0 if that holds, 1 if
not or not yet.
"""

from __future__ import annotations

import argparse
from typing import Any

from engine.commands.select import (
    add_shares_argument,
    add_trust_argument,
    labeled_sample,
    with_class_names,
    with_class_shares,
)
from engine.decide.choose import statistics_of
from engine.decide.gate import AGAINST, METRICS, Against, Metric, Question, gate_candidate, gate_statement
from engine.predictions.file import load_predictions
from engine.recommend.trust import label_trust
from engine.types import Predictions, UserError

HELP = "sign a candidate off, or say how many more labels that takes"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="predictions .npz")
    parser.add_argument("--candidate", required=True, help="name of the candidate, or its index in the file")
    parser.add_argument(
        "--labels", help="CSV of row,label or file,label; without it the labels in the file are used"
    )
    parser.add_argument(
        "--class-names", help="text file with one class name per line, if the predictions carry none"
    )
    parser.add_argument("--max-drop", type=float, required=True, help="how much worse it may be, e.g. 0.02")
    parser.add_argument(
        "--metric",
        default="loss",
        metavar="|".join(METRICS),
        help="nats of loss (default) or share of accuracy",
    )
    parser.add_argument(
        "--against",
        default="teacher",
        metavar="|".join(AGAINST),
        help="the float teacher (default) or the best",
    )
    parser.add_argument("--confidence", type=float, default=0.9, help="how surely, e.g. 0.9 (default)")
    add_trust_argument(parser)
    add_shares_argument(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    question = _question(args)
    predictions = with_class_shares(
        with_class_names(load_predictions(args.file), args.class_names), args.class_shares
    )
    index = _candidate(predictions, args.candidate)
    trust, sample = label_trust(args.label_trust), labeled_sample(predictions, args.labels)
    if sample.n == 0:
        raise UserError("there are no labels, so nothing can be signed off.", "Give a CSV.", option="labels")
    answer = gate_candidate(predictions, statistics_of(predictions), sample, index, question, trust=trust)
    name, classes = predictions.names[index], predictions.class_names
    record = answer.to_dict()
    record["per_class"] = [
        {"label": label, "class": classes[label] if classes else str(label), "drop": entry["drop"]}
        for label, entry in enumerate(record["per_class"])
    ]
    return {
        "candidate": name,
        "index": index,
        **record.pop("question"),
        **record,
        "n_labels": sample.n,
        "statement": gate_statement(answer, candidate=name, reference=predictions.reference),
        "wanting": answer.status != "holds",
    }


def _question(args: argparse.Namespace) -> Question:
    if not 0 <= args.max_drop < float("inf"):
        raise UserError(f"--max-drop is {args.max_drop:g}; give a number from 0, e.g. 0.02.")
    if not 0.5 <= args.confidence < 1:
        raise UserError(f"--confidence is {args.confidence:g}; give a share from 0.5 to below 1, e.g. 0.9.")
    return Question(
        max_drop=args.max_drop,
        metric=_metric(args.metric),
        against=_against(args.against),
        confidence=args.confidence,
    )


def _metric(text: str) -> Metric:
    for metric in METRICS:
        if text == metric:
            return metric
    raise UserError(f"--metric is {text!r}; use one of: {', '.join(METRICS)}.")


def _against(text: str) -> Against:
    for against in AGAINST:
        if text == against:
            return against
    raise UserError(f"--against is {text!r}; use one of: {', '.join(AGAINST)}.")


def _candidate(predictions: Predictions, given: str) -> int:
    if given in predictions.names:
        return predictions.names.index(given)
    if given.isdecimal() and int(given) < predictions.n_candidates:
        return int(given)
    raise UserError(
        f"there is no candidate {given!r} in this file.",
        f"Use a name such as {predictions.names[0]}, or an index from 0 to {predictions.n_candidates - 1}.",
        option="candidate",
    )


def summary(result: dict[str, Any]) -> str:
    drop, lines = result["drop"], [result["statement"]]
    lines.append(
        f"drop {drop['estimate']:.3g}, between {drop['low']:.3g} and {drop['high']:.3g}, each bound with"
        f" {result['confidence']:.0%} confidence (positive is worse)"
    )
    labeled = [entry for entry in result["per_class"] if entry["drop"] is not None]
    for entry in sorted(labeled, key=lambda entry: -entry["drop"]["estimate"]):
        own = entry["drop"]
        lines.append(
            f"class {entry['class']}: {own['estimate']:.3g} ({own['low']:.3g} to {own['high']:.3g}) from"
            f" {own['n']} label{'s' if own['n'] != 1 else ''}"
        )
    return "\n".join(lines)
