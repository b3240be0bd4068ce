"""`label-next`: which images to label next, how many labels would halve the doubt, and which given labels to
check.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import numpy as np

from engine.commands.select import (
    add_shares_argument,
    add_trust_argument,
    labeled_sample,
    with_class_names,
    with_class_shares,
)
from engine.decide.choose import admissible_under, choose, statistics_of
from engine.family.cost import read_budget
from engine.predictions.file import load_predictions
from engine.recommend.auto import AUTO, prepare
from engine.recommend.calibrated import calibrate
from engine.recommend.next_labels import label_next, labels_to_halve
from engine.recommend.suspects import suspects
from engine.recommend.trust import label_trust
from engine.types import LabeledSample, UserError
from engine.words import counted

HELP = "name the images whose labels would decide between the contenders"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="predictions .npz")
    parser.add_argument(
        "--labels",
        help=(
            "CSV of row,label or file,label given so far; without it the labels in the file are used, if any"
        ),
    )
    parser.add_argument(
        "--class-names", help="text file with one class name per line, if the predictions carry none"
    )
    parser.add_argument("-k", "--count", type=int, default=10, help="how many images to name (default 10)")
    parser.add_argument(
        "--budget",
        help=(
            "memory budget: a share of the float teacher, e.g. 0.22 or 22%%, or a size of the file, e.g."
            " 1.2MB"
        ),
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the draw (default 0)")
    add_trust_argument(parser)
    add_shares_argument(parser)


def run(args: argparse.Namespace) -> dict[str, Any]:
    predictions = with_class_shares(
        with_class_names(load_predictions(args.file), args.class_names), args.class_shares
    )
    sample: LabeledSample = labeled_sample(predictions, args.labels)
    trust = label_trust(args.label_trust)
    if args.seed < 0:
        raise UserError(f"--seed is {args.seed}; give a whole number from 0.")
    if args.count < 1:
        raise UserError(f"-k is {args.count}; ask for at least 1 image.")
    if predictions.n_candidates < 2:
        raise UserError(
            f"{predictions.names[0]} is the only candidate, so no label can decide anything. Run more"
            " candidates."
        )
    if sample.n >= predictions.n_images:
        raise UserError(
            f"all {predictions.n_images} images of the pool are labeled already; there is nothing left to"
            " label. Use select."
        )
    mask = admissible_under(predictions, read_budget(args.budget))
    pool = statistics_of(predictions)
    choice = choose(AUTO, predictions, sample, pool=pool, admissible=mask, trust=trust)
    prepared = prepare(predictions, pool)
    verdict = calibrate(prepared, sample, trust)
    chances = np.array(choice.details["probability_best"], dtype=np.float64)
    plan = label_next(prepared, verdict, chances, sample.rows, args.count, seed=args.seed)
    return {
        "rows": [int(row) for row in plan.rows],
        "files": None if predictions.files is None else [predictions.files[row] for row in plan.rows],
        "contest": [float(value) for value in plan.contest],
        "contenders": [predictions.names[m] for m in plan.contenders],
        "worth": plan.worth,
        "pick": choice.name,
        "index": choice.index,
        "n_labels": sample.n,
        "expected_regret": choice.details["expected_regret"],
        "labels_to_halve": labels_to_halve(prepared, verdict, sample, admissible=mask, seed=args.seed),
        "check": [asdict(suspect) for suspect in suspects(prepared, verdict, sample, admissible=mask)],
    }


def summary(result: dict[str, Any]) -> str:
    named = result["files"] or result["rows"]
    more = result["labels_to_halve"]
    halve = (
        "no amount up to 160 labels is expected to halve it"
        if more is None
        else f"about {counted(more, 'more label')} would halve it"
    )
    lines = [
        f"label next: {', '.join(str(name) for name in named)}",
        (
            f"to decide between {', '.join(result['contenders'])}; each is worth at best"
            f" {result['worth']:.1f} random labels"
        ),
        (
            f"with {counted(result['n_labels'], 'label')} the pick is {result['pick']}, expected regret"
            f" {result['expected_regret']:.3f}; {halve}"
        ),
    ]
    for suspect in result["check"]:
        flips = "" if suspect["pick_without"] is None else "; without it the pick changes"
        lines.append(
            f"check row {suspect['row']}: label {suspect['label']} is right with"
            f" {100 * suspect['probability']:.0f} %{flips}"
        )
    return "\n".join(lines)
