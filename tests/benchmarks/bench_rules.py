"""Regret of `auto` and `calibrated` relative to the paper's rules, same subsets for all, on the shipped
families or those of a folder.

`python -m tests.benchmarks.bench_rules FOLDER [--noise KIND] [--label-trust TRUST]` takes the predictions
files of a folder, e.g. from `sample_models.more_families`, or peers: candidates that were not made from the
teacher. It prints every cell beside the best rule of the paper, and whether stated probabilities hold.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.decide.choose import choose, statistics_of
from engine.predictions.file import load_predictions
from engine.recommend.doubt import EPSILON, SURE
from engine.rules.sampling import draw_subset
from engine.rules.statistics import FLOOR
from engine.samples import FOLDER
from engine.study.protocol.noise import MATRIX, NOISE_KINDS, UNIFORM, label_noise
from engine.types import LABEL_TRUSTS, LabeledSample, LabelTrust, Predictions

RULES = ("val-ce", "val-acc", "ce-combo", "alignment", "coda", "ppi", "calibrated", "auto")
PAPER = 4  # of them
BUDGETS, RATES = (10, 25, 50, 100, 300), (0.0, 0.2, 0.4)
BEHIND, BEHIND_SHARE = 0.005, 1.1  # how far auto may lie behind the best rule of the paper in any cell


@dataclass(frozen=True)
class Setting:
    """How labels go wrong, what the recommendation is told of them, and how many samples are drawn per
    cell.
    """

    noise: str = UNIFORM
    trust: LabelTrust = "normal"
    repetitions: int = 10


def _regrets(predictions: Predictions) -> np.ndarray:
    assert predictions.candidates_test is not None
    assert predictions.labels_test is not None
    probs = predictions.candidates_test[:, np.arange(len(predictions.labels_test)), predictions.labels_test]
    losses = -np.log(np.maximum(np.asarray(probs, dtype=np.float64), FLOOR)).mean(axis=1)
    return np.asarray(losses - losses.min())


def _family(predictions: Predictions, setting: Setting) -> tuple[np.ndarray, list[bool]]:
    """Mean regret (rules, budgets, rates) of one family, and for each claim of `auto` to be near the best
    whether it is true.
    """
    regrets, pool = _regrets(predictions), statistics_of(predictions)
    noise = label_noise(setting.noise, predictions)
    means, claims = np.full((len(RULES), len(BUDGETS), len(RATES)), np.nan), []
    for i, n in enumerate(BUDGETS):
        for j, rate in enumerate(RATES):
            if n > predictions.n_images:
                continue
            subsets = [draw_subset(predictions.n_images, n, r) for r in range(setting.repetitions)]
            samples = [LabeledSample(rows, noise.corrupt(rows, rate, r)) for r, rows in enumerate(subsets)]
            for k, rule in enumerate(RULES):
                choices = [
                    choose(rule, predictions, sample, pool=pool, trust=setting.trust) for sample in samples
                ]
                means[k, i, j] = np.mean([regrets[choice.index] for choice in choices])
            for choice in choices:  # of auto, the last rule
                claims += [
                    bool(regrets[m] <= EPSILON)
                    for m in np.flatnonzero(np.array(choice.details["probability_close"]) >= SURE)
                ]
    return means, claims


def _table(title: str, means: np.ndarray, claims: list[bool]) -> Iterator[str]:
    cells = np.nanmean(means, axis=0)
    by_rule = dict(zip(RULES, np.nanmean(cells, axis=(1, 2)), strict=True))
    best, auto = np.nanmin(cells[:PAPER], axis=0), cells[-1]
    behind = int(np.nansum(auto > np.maximum(best + BEHIND, BEHIND_SHARE * best)))
    yield (
        f"**{title}**, {len(means)} families: behind the best rule of the paper in {behind} of {auto.size}"
        " cells; "
        + (
            f"{np.mean(claims):.0%} of {len(claims)} candidates given {SURE:.0%} to be within {EPSILON} of"
            " the best are so."
            if claims
            else f"no candidate was given {SURE:.0%} to be within {EPSILON} of the best."
        )
    )
    yield (
        "\n| rule | mean regret | relative to ce-combo | relative to val-ce | n=10 clean, relative to"
        " ce-combo |\n|---|---|---|---|---|"
    )
    for rule, values in zip(RULES, cells, strict=True):
        ratios = (
            by_rule[rule] / by_rule["ce-combo"],
            by_rule[rule] / by_rule["val-ce"],
            values[0, 0] / cells[RULES.index("ce-combo")][0, 0],
        )
        yield f"| {rule} | {by_rule[rule]:.3f} | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |"
    yield "\n| labels | wrong | auto | " + " | ".join(RULES[:PAPER]) + " |\n|---|---|---|" + "---|" * PAPER
    for i, n in enumerate(BUDGETS):
        for j, rate in enumerate(RATES):
            figures = " | ".join(f"{value:.3f}" for value in (auto[i, j], *cells[:PAPER, i, j]))
            yield f"| {n} | {rate:.0%} | {figures} |"
    yield ""


def main(*, quick: bool = False, folder: Path = FOLDER, setting: Setting | None = None) -> Iterator[str]:
    """Yield tables for balanced families and for imbalanced ones, told by their file's name."""
    families = {path.stem: load_predictions(path) for path in sorted(folder.glob("*.npz"))}
    usable = {
        name: family for name, family in families.items() if family.has_test and (family.labels >= 0).all()
    }
    if not usable:
        yield "No predictions with labels and a test part are here."
        return
    given = setting or Setting(repetitions=1 if quick else 10)
    yield (
        f"Mean over families, budgets {BUDGETS} and rates {RATES}; noise {given.noise}, labels {given.trust},"
        f" {given.repetitions} samples a cell.\n"
    )
    found = {name: _family(family, given) for name, family in list(usable.items())[: 1 if quick else None]}
    for title, names in (
        ("Balanced", [name for name in found if "imbalanced" not in name]),
        ("Imbalanced 10:1", [name for name in found if "imbalanced" in name]),
    ):
        if names:
            yield from _table(
                title,
                np.stack([found[name][0] for name in names]),
                [claim for name in names for claim in found[name][1]],
            )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--noise", default=UNIFORM, choices=[kind for kind in NOISE_KINDS if kind != MATRIX])
    parser.add_argument("--label-trust", default="normal", choices=LABEL_TRUSTS)
    parser.add_argument("--repetitions", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    args = _arguments()
    asked = Setting(noise=args.noise, trust=args.label_trust, repetitions=args.repetitions)
    for line in main(folder=args.folder, setting=asked):
        print(line, flush=True)
