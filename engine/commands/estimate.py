"""`estimate`: every label-free rule on a predictions file."""

from __future__ import annotations

import argparse
from typing import Any

from engine.decide.choose import admissible_under, statistics_of
from engine.family.cost import read_budget
from engine.predictions.file import load_predictions
from engine.rules.label_free import estimate_all

HELP = "score all candidates of a predictions file with every label-free rule"


class _Verdicts(dict[str, Any]):
    """The JSON object of the contract; the candidates' names stand beside it, for the words only."""

    names: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="predictions .npz")
    parser.add_argument(
        "--budget",
        help=(
            "memory budget: a share of the float teacher, e.g. 0.22 or 22%%, or a size of the file, e.g."
            " 1.2MB"
        ),
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    predictions = load_predictions(args.file)
    budget = read_budget(args.budget)
    estimates = estimate_all(
        statistics_of(predictions),
        predictions.names,
        predictions.cost,
        admissible=admissible_under(predictions, budget),
    )
    result = _Verdicts(
        (
            name,
            {
                "scores": verdict.scores.tolist(),
                "better": verdict.better,
                "pick": verdict.pick,
                "ties": verdict.ties,
            },
        )
        for name, verdict in estimates.items()
    )
    result.names = predictions.names
    return result


def summary(result: _Verdicts) -> str:
    picks = {rule: result.names[verdict["pick"]] for rule, verdict in result.items()}
    width = max(map(len, ("pick", *picks.values())))
    lines = [f"{'rule':<18} {'pick':<{width}} {'score':>8}  better  tied"]
    for name, verdict in result.items():
        score = verdict["scores"][verdict["pick"]]
        lines.append(
            f"{name:<18} {picks[name]:<{width}} {score:>8.4g}  {verdict['better']:<6}"
            f" {verdict['ties'] - 1:>5}"
        )
    lines.append(
        "Each rule has a scale of its own: compare candidates within a line, not scores between lines."
    )
    return "\n".join(lines)
