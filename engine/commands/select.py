"""`select`: one rule's choice on a predictions file and a labels CSV."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.decide.choose import METHODS, PEERS, admissible_under, choose
from engine.decide.limits import Limits
from engine.family.cost import SizeBudget, read_budget, stored_costs
from engine.family.model_file import CONSENSUS
from engine.predictions.file import load_predictions
from engine.recommend.trust import label_trust
from engine.rules.anchors import ANCHORS
from engine.target.class_shares import read_class_shares
from engine.target.labels import read_labels, sample_from_array
from engine.types import FLOOR, LABEL_TRUSTS, Choice, Floats, LabeledSample, Predictions, UserError

HELP = "choose a candidate with one rule, from few or no labels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="predictions .npz")
    parser.add_argument(
        "--labels", help="CSV of row,label or file,label; without it the labels in the file are used"
    )
    parser.add_argument(
        "--class-names", help="text file with one class name per line, if the predictions carry none"
    )
    parser.add_argument("--method", required=True, help=f"one of: {', '.join((*METHODS, *PEERS))}")
    add_limit_arguments(parser)
    parser.add_argument(
        "--anchor", default="pool", help=f"what anchored rules shrink toward: {', '.join(ANCHORS)}"
    )
    add_trust_argument(parser)
    add_shares_argument(parser)
    parser.add_argument(
        "--floor", type=float, default=FLOOR, help="lower clip of probabilities before logarithms"
    )


def add_limit_arguments(parser: argparse._ActionsContainer) -> None:
    """What a candidate may take, as every command that chooses asks it."""
    parser.add_argument(
        "--budget",
        help=(
            "memory budget: a share of the float teacher, e.g. 0.22 or 22%%, or a size of the file, e.g."
            " 1.2MB"
        ),
    )
    parser.add_argument(
        "--max-latency",
        type=float,
        metavar="RATIO",
        help=(
            "only candidates that take at most this share of the float teacher's time, e.g. 0.8, as measured"
            " by the run on its processor"
        ),
    )


def limits_of(args: argparse.Namespace) -> Limits:
    """Return the limits that the options set."""
    budget = read_budget(args.budget)
    if isinstance(budget, SizeBudget):
        return Limits(n_bytes=budget.n_bytes, latency=args.max_latency)
    return Limits(memory=budget, latency=args.max_latency)


def add_trust_argument(parser: argparse._ActionsContainer) -> None:
    """The question how the labels were made, as every command asks it."""
    parser.add_argument(
        "--label-trust",
        default="normal",
        metavar="|".join(LABEL_TRUSTS),
        help=(
            "how the labels were made: checked by an expert, with normal care (default), or by a crowd or a"
            " program"
        ),
    )


def add_shares_argument(parser: argparse._ActionsContainer) -> None:
    """The question how frequent the classes are, as every command asks it."""
    parser.add_argument(
        "--class-shares",
        metavar="equal|CSV",
        help=(
            "how frequent the classes are in the target, if you know: `equal`, or a CSV of class,share (one"
            " line a class; counts will do)"
        ),
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    if not 0 < args.floor < 0.1:
        raise UserError(f"--floor is {args.floor:g}; it must lie between 0 and 0.1, e.g. 1e-8.")
    predictions = with_class_shares(
        with_class_names(load_predictions(args.file), args.class_names), args.class_shares
    )
    budget = read_budget(args.budget)
    choice = choose(
        args.method,
        predictions,
        labeled_sample(predictions, args.labels),
        admissible=admissible_under(predictions, budget, max_latency=args.max_latency),
        anchor=args.anchor,
        floor=args.floor,
        trust=label_trust(args.label_trust),
    )
    runner_up = None if choice.runner_up is None else predictions.names[choice.runner_up]
    record = {**choice_record(choice), "runner_up_name": runner_up, **_memory(predictions, choice.index)}
    record |= _time(predictions, choice.index)
    if predictions.reference is not None:
        record["warnings"].append(_stand_in_words(predictions.reference))
    if isinstance(budget, float) and (stored := record["stored_cost"]) is not None and stored > budget:
        record["warnings"].append(
            f"An ONNX file of {choice.name} takes {stored:.1%} of the float memory, more than the budget of"
            f" {budget:.1%}: ONNX has integers of 2, 4 and 8 bits only. If the file must fit, give a smaller"
            " budget or choose one of those widths."
        )
    return record


def _stand_in_words(reference: str) -> str:
    what = reference.removeprefix("candidate:") if reference != CONSENSUS else "the candidates' consensus"
    return f"There is no float teacher behind these predictions: {what} stands in for it."


def _memory(predictions: Predictions, index: int) -> dict[str, Any]:
    """Memory of a candidate: relative weight memory at its true bit width and as an ONNX file stores it, and
    the bytes of the file that ships; None where not known.
    """
    sizes = {
        "bytes": None if predictions.bytes is None else round(float(predictions.bytes[index])),
        "reference": predictions.reference,
    }
    if predictions.cost is None:
        return {"cost": None, "stored_cost": None, **sizes}
    return {
        "cost": float(predictions.cost[index]),
        "stored_cost": float(stored_costs(predictions.names, predictions.cost)[index]),
        **sizes,
    }


def _time(predictions: Predictions, index: int) -> dict[str, Any]:
    """Time per image of a candidate relative to the float teacher, its spread, and with weights unpacked at
    load; None where not known.
    """
    arrays = {
        "latency": predictions.latency,
        "latency_spread": predictions.latency_spread,
        "latency_unpacked": predictions.latency_unpacked,
    }
    found = {name: None if array is None else float(array[index]) for name, array in arrays.items()}
    return {name: None if value is None or value != value else value for name, value in found.items()}


def with_class_names(predictions: Predictions, path: str | None) -> Predictions:
    """Return predictions that know their classes by the names in a text file, one a line."""
    if path is None:
        return predictions
    if not Path(path).is_file():
        raise UserError(f"{path} is not a file. Give a text file with one class name per line.")
    names = tuple(
        line.strip() for line in Path(path).read_text(encoding="utf-8").splitlines() if line.strip()
    )
    if len(names) != predictions.n_classes or len(set(names)) != len(names):
        raise UserError(
            f"{path} has {len(names)} names; {predictions.n_classes} different ones are needed, one per line."
        )
    return replace(predictions, class_names=names)


def with_class_shares(predictions: Predictions, text: str | None) -> Predictions:
    """Return predictions that know how frequent the classes are, from a word or a file, if one is given."""
    if text is None:
        return predictions
    shares = read_class_shares(text, n_classes=predictions.n_classes, class_names=predictions.class_names)
    return replace(predictions, class_shares=shares)


def labeled_sample(predictions: Predictions, labels_csv: str | None) -> LabeledSample:
    """Return S from a labels CSV, or from the labels inside the predictions."""
    if labels_csv is None:
        return sample_from_array(predictions.labels)
    return read_labels(
        labels_csv,
        n_rows=predictions.n_images,
        n_classes=predictions.n_classes,
        class_names=predictions.class_names,
        files=predictions.files,
    )


def choice_record(choice: Choice) -> dict[str, Any]:
    """Return the JSON form of a choice (scores of candidates over budget are nan, printed as null)."""
    return {
        "method": choice.method,
        "index": choice.index,
        "name": choice.name,
        "coefficient": choice.coefficient,
        "grid": _listed(choice.grid),
        "cv_losses": _listed(choice.cv_losses),
        "scores": _listed(choice.scores),
        "n_labels": choice.n_labels,
        "ties": choice.ties,
        "warnings": list(choice.warnings),
        "better": choice.better,
        "anchor": _listed(choice.anchor),
        "supervised": _listed(choice.supervised),
        "runner_up": choice.runner_up,
        "margin": choice.margin,
        **choice.details,
    }


def _listed(values: Floats | None) -> list[float] | None:
    return None if values is None else [float(value) for value in values]


def summary(result: dict[str, Any]) -> str:
    n, close = result["n_labels"], result.get("probability_close")
    lines = [
        f"{result['method']} picks {result['name']} (index {result['index']}) with {n}"
        f" label{'s' if n != 1 else ''}{_memory_words(result)}{_time_words(result)}."
    ]
    score = f"score {result['scores'][result['index']]:.4g} ({result['better']} is better)"
    if close is not None:
        lines.append(f"expected loss in nats: {score}")
    if close is not None and result["reservation"] is None:
        others = len(result["indistinguishable"]) - 1
        lines.append(
            f"within {result['epsilon']:g} of the best with {close[result['index']]:.0%} probability; "
            f"{others} other candidate{'s' if others != 1 else ''} cannot be told apart from it"
        )
    if close is None:
        lines.append(score if result["ties"] == 1 else f"{score}, shared by {result['ties']} candidates")
    if result["coefficient"] is not None:
        lines.append(f"weight of the labels {result['coefficient']:.3g}")
    if result["runner_up"] is not None:
        lines.append(f"runner-up {result['runner_up_name']}, behind by {result['margin']:.3g}")
    reserved = [result["reservation"]] if result.get("reservation") else []
    return "\n".join(lines + [f"note: {warning}" for warning in (*reserved, *result["warnings"])])


def _memory_words(result: dict[str, Any]) -> str:
    cost, stored = result["cost"], result["stored_cost"]
    if result["reference"] is not None and result["bytes"] is not None:
        return f"; its file has {result['bytes'] / 1e6:.3g} MB"  # a share of a float model means nothing here
    if cost is None:
        return ""
    file = (
        f" ({stored:.1%} in an ONNX file, which has no integers of its width)"
        if stored is not None and stored > cost + 1e-9
        else ""
    )
    return f"; it takes {cost:.1%} of the float memory{file}"


def _time_words(result: dict[str, Any]) -> str:
    if result["latency"] is None:
        return ""
    unpacked = result["latency_unpacked"]
    also = (
        ""
        if unpacked is None
        else f" with weights kept packed, {unpacked:.2f}x with weights unpacked at load"
    )
    return f"; on the processor that ran it, it takes {result['latency']:.2f}x the float teacher's time{also}"
