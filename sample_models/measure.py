"""Prints the measured tables of README.md from the shipped predictions: `python -m sample_models.measure
[NAME ...] [--update]`.

Knows the protocol's budgets and the layout of the tables. The formulas are the engine's.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from engine.decide.choose import METHODS, choose, statistics_of
from engine.diagnose.health import COLLAPSE_FACTOR, collapse_rates
from engine.predictions.file import load_sample_predictions
from engine.recommend.auto import CALIBRATED_RULES
from engine.rules.sampling import draw_sample
from engine.rules.statistics import FLOOR, PoolStatistics
from engine.rules.supervised import SUPERVISED
from engine.samples import FOLDER, sample_names
from engine.types import Floats, Ints, Predictions

MARKER = "<!-- measured: everything below is written by `python -m sample_models.measure --update` -->"
BUDGETS = (10, 25, 50, 100, 300)
USE_LABELS = (*CALIBRATED_RULES, *SUPERVISED)
REPETITIONS = 25  # the protocol's number for clean labels; a budget equal to the pool has one subset only


@dataclass(frozen=True, eq=False)
class Truth:
    """What the held-out test part says of each candidate (M,), and of the teacher."""

    losses: Floats
    accuracies: Floats
    confidences: Floats
    teacher_loss: float
    teacher_accuracy: float
    teacher_confidence: float

    @property
    def regrets(self) -> Floats:
        return np.asarray(self.losses - self.losses.min())

    @property
    def oracle(self) -> int:
        return int(np.argmin(self.losses))


def truth_of(predictions: Predictions) -> Truth:
    """Measure losses, accuracies and mean confidences on the test part, which must be there."""
    if (
        predictions.labels_test is None
        or predictions.candidates_test is None
        or predictions.teacher_test is None
    ):
        raise ValueError("the predictions have no test part")
    rows = [
        _measure(probs, predictions.labels_test)
        for probs in (predictions.teacher_test, *predictions.candidates_test)
    ]
    losses, accuracies, confidences = np.array(rows).T
    return Truth(losses[1:], accuracies[1:], confidences[1:], *rows[0])


def _measure(probs: Floats, labels: Ints) -> tuple[float, float, float]:
    probs = np.asarray(probs, dtype=np.float64)
    true = np.maximum(probs[np.arange(len(labels)), labels], FLOOR)
    return (
        float(-np.log(true).mean()),
        float(np.mean(probs.argmax(axis=1) == labels)),
        float(probs.max(axis=1).mean()),
    )


def mean_regret(method: str, predictions: Predictions, pool: PoolStatistics, truth: Truth, n: int) -> float:
    """Return the regret of a rule at n labels, averaged over the protocol's subsets."""
    repetitions = 1 if n == predictions.n_images else REPETITIONS
    samples = (
        draw_sample(predictions.labels, n, n_classes=predictions.n_classes, repetition=r)
        for r in range(repetitions)
    )
    picks = [
        choose(method, predictions, sample, pool=pool, repetition=r).index for r, sample in enumerate(samples)
    ]
    return float(np.mean(truth.regrets[picks]))


def facts_lines(names: tuple[str, ...]) -> Iterator[str]:
    """Yield one table over all families: teacher, spread, correlation, confidences, oracle."""
    yield (
        "| family | teacher accuracy | teacher loss | spread | accuracy–confidence correlation | confidence"
        " best / worst | oracle | its loss |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for name in names:
        predictions = load_sample_predictions(name)
        truth = truth_of(predictions)
        best, worst = truth.oracle, int(np.argmax(truth.losses))
        correlation = np.corrcoef(truth.accuracies, truth.confidences)[0, 1]
        yield (
            f"| {name} | {truth.teacher_accuracy:.3f} | {truth.teacher_loss:.3f} | {np.ptp(truth.losses):.2f}"
            f" | {correlation:+.2f} | {truth.confidences[best]:.3f} / {truth.confidences[worst]:.4f} |"
            f" `{predictions.names[best]}` | {truth.losses[best]:.3f} |"
        )


def collapse_lines(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the share of collapsed candidates (accuracy at most 1.5 times chance) by bits and granularity."""
    tables = {}
    for name in names:
        predictions = load_sample_predictions(name)
        collapsed = truth_of(predictions).accuracies <= COLLAPSE_FACTOR / predictions.n_classes
        tables[name] = {
            (rate.bits, rate.granularity): rate.rate for rate in collapse_rates(predictions.names, collapsed)
        }
    cells = sorted(next(iter(tables.values())), key=lambda cell: (cell[0], cell[1] != "tensor"))
    yield "| family | " + " | ".join(f"{bits} {granularity}" for bits, granularity in cells) + " |"
    yield "|---" * (len(cells) + 1) + "|"
    for name, rates in tables.items():
        yield f"| {name} | " + " | ".join(f"{rates[cell]:.2f}" for cell in cells) + " |"


def regret_lines(name: str) -> Iterator[str]:
    """Yield one family's table of mean regret: a row per rule, a column per label budget."""
    predictions = load_sample_predictions(name)
    pool, truth = statistics_of(predictions), truth_of(predictions)
    budgets = [n for n in BUDGETS if n <= predictions.n_images]
    yield f"| {name} | " + " | ".join(f"n = {n}" for n in budgets) + " |"
    yield "|---" * (len(budgets) + 1) + "|"
    for method in METHODS:
        if method in USE_LABELS:
            cells = [f"{mean_regret(method, predictions, pool, truth, n):.3f}" for n in budgets]
        else:
            cells = [f"{truth.regrets[choose(method, predictions, pool=pool).index]:.3f}"] * len(budgets)
        yield f"| `{method}`{'' if method in USE_LABELS else ' (no labels)'} | " + " | ".join(cells) + " |"


def all_lines(names: tuple[str, ...]) -> Iterator[str]:
    """Yield every table, with a heading for each kind."""
    yield from (
        "### Families",
        "",
        *facts_lines(names),
        "",
        "### Share of collapsed candidates, by bits and granularity",
        "",
    )
    yield from collapse_lines(names)
    yield from ("", "### Mean regret by rule and number of labels (lower is better)")
    for name in names:
        yield ""
        yield from regret_lines(name)


def main() -> None:
    """Print all tables of the named families, or write those of all families into README.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"families, all by default: {', '.join(sample_names(of_recipes=True))}",
    )
    parser.add_argument(
        "--update", action="store_true", help="replace the tables in README.md by those of all families"
    )
    options = parser.parse_args()
    if not options.update:
        for line in all_lines(tuple(options.names) or sample_names(of_recipes=True)):
            print(line, flush=True)
        return
    readme = FOLDER / "README.md"
    before, _ = readme.read_text().split(MARKER)
    readme.write_text("\n".join([before + MARKER, "", *all_lines(sample_names(of_recipes=True)), ""]))


if __name__ == "__main__":
    main()
