"""The tables behind the pages: what every rule says, all candidates with their numbers, and the dial between
teacher and labels.

Pure functions from predictions and choices to tables. Knows no widget and no file; formulas stay in the
rules' own modules.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from engine.decide.choose import RECOMMENDED
from engine.family.kinds import traits_of
from engine.rules.label_free import HIGHEST_PRECISION, LABEL_FREE
from engine.rules.statistics import FLOOR, PoolStatistics
from engine.rules.supervised import SUPERVISED
from engine.types import Bools, Choice, Floats, LabeledSample, Predictions

# they explain the other rules; nobody deploys their pick
CONTROLS = (
    "teacher-component",
    "permutation-control",
)
_GROUPS = ("Recommended", "Anchored", "Direct validation", "Label-free", "Control")

_DOUBT_COLUMNS = {
    "probability_best": "probability_best",
    "probability_close": "probability_close",
    "expected_regret": "expected_regrets",
}
_REASONS = {
    HIGHEST_PRECISION: "Uses no data at all: most bits, finest scales, no clipping.",
    "calibrated": (
        "Corrects the teacher's confidence, then corrects that with the labels; allows for wrong labels."
    ),
    "auto": "The rule we recommend: the calibrated teacher, with its doubt.",
}


def candidates_table(
    predictions: Predictions,
    pool: PoolStatistics,
    sample: LabeledSample | None,
    choices: Mapping[str, Choice],
    admissible: Bools | None = None,
) -> pd.DataFrame:
    """Return one row a candidate, in the file's order.

    Columns: index, name, bits, granularity, percentile, float_ends (nan/None where names are not slugs),
    cost, admissible, distortion, agreement, confidence, loss, accuracy (nan without labels), score (of the
    recommended rule), probability_best, probability_close and expected_regret (nan where the recommended rule
    does not say), and picked_by (rules that pick it).
    """
    n = predictions.n_candidates
    recommended = choices[RECOMMENDED]
    table = pd.DataFrame(
        {"index": np.arange(n), "name": predictions.names, **_recipe_columns(predictions.names)}
    )
    table["cost"] = np.full(n, np.nan) if predictions.cost is None else predictions.cost
    table["admissible"] = np.ones(n, dtype=np.bool_) if admissible is None else admissible
    table["distortion"] = pool.distortion
    table["agreement"] = np.mean(pool.agrees, axis=1)
    table["confidence"] = np.mean(pool.confidence, axis=1)
    table["loss"], table["accuracy"] = _labeled_columns(predictions, pool, sample)
    table["score"] = recommended.scores
    for column, key in _DOUBT_COLUMNS.items():
        table[column] = recommended.details.get(key, np.full(n, np.nan))
    table["picked_by"] = [
        ", ".join(rule for rule, choice in choices.items() if choice.index == m) for m in range(n)
    ]
    return table


def _recipe_columns(names: tuple[str, ...]) -> dict[str, list[object]]:
    columns: dict[str, list[object]] = {"bits": [], "granularity": [], "percentile": [], "float_ends": []}
    for name in names:
        traits = traits_of(name)
        for column, values in columns.items():
            values.append(None if traits is None else getattr(traits, column))
    return columns


def _labeled_columns(
    predictions: Predictions, pool: PoolStatistics, sample: LabeledSample | None
) -> tuple[Floats, Floats]:
    if sample is None:
        nothing = np.full(predictions.n_candidates, np.nan)
        return nothing, nothing
    right = np.empty((predictions.n_candidates, sample.n))
    for m in range(len(right)):
        right[m] = predictions.candidates[m, sample.rows][np.arange(sample.n), sample.labels]
    loss = np.mean(-np.log(np.maximum(right, FLOOR)), axis=1)
    hits = pool.predicted[:, sample.rows] == sample.labels
    return np.asarray(loss), np.asarray(np.mean(hits, axis=1))


def family_table(names: tuple[str, ...], cost: Floats, admissible: Bools) -> pd.DataFrame:
    """Return one row a candidate before anything was run: name, bits, granularity, percentile, float_ends,
    cost, admissible.
    """
    return pd.DataFrame({"name": names, **_recipe_columns(names), "cost": cost, "admissible": admissible})


def scale_premium(family: pd.DataFrame) -> float:
    """Return how much float memory finer scales cost at most: the largest difference between a per-channel
    candidate and its per-tensor sibling; nan where there are no such pairs.
    """
    wide = family.pivot_table(
        index=["bits", "percentile", "float_ends"], columns="granularity", values="cost", dropna=False
    )
    if not {"tensor", "channel"} <= set(wide.columns):
        return float("nan")
    return float((wide["channel"] - wide["tensor"]).max())


def group_of(method: str) -> str:
    """Return which kind of rule a method is, as the rule table groups them."""
    if method == "auto":
        return "Recommended"
    if method in CONTROLS:
        return "Control"
    if method == "calibrated":
        return "Anchored"
    if method in SUPERVISED:
        return "Direct validation" if SUPERVISED[method].grid is None else "Anchored"
    return "Label-free"


def _reason(method: str) -> str:
    if method in SUPERVISED:
        return f"Assumes {SUPERVISED[method].assumes}."
    if method in LABEL_FREE:
        return f"Assumes {LABEL_FREE[method].assumes}."
    return _REASONS.get(method, "")


def rule_table(choices: Mapping[str, Choice], candidates: pd.DataFrame) -> pd.DataFrame:
    """Return one row a rule, grouped: what it picks and what is known of that pick.

    Columns: group, rule, pick, cost, agreement, loss, distortion, n_labels, coefficient, ties, why.
    """
    rows = []
    for method, choice in choices.items():
        pick = candidates.iloc[choice.index]
        rows.append(
            {
                "group": group_of(method),
                "rule": method,
                "pick": choice.name,
                **{column: float(pick[column]) for column in ("cost", "agreement", "loss", "distortion")},
                "n_labels": choice.n_labels,
                "coefficient": choice.coefficient,
                "ties": choice.ties,
                "why": _reason(method),
            }
        )
    order = {group: place for place, group in enumerate(_GROUPS)}
    return pd.DataFrame(rows).sort_values(
        "group", key=lambda groups: groups.map(order), kind="stable", ignore_index=True
    )


def dial_table(choice: Choice) -> pd.DataFrame:
    """Return an anchored rule's coefficients with the held-out loss and the pick of each: columns
    coefficient, cv_loss, index, pick_name, chosen.

    Raises ValueError for a rule without a coefficient.
    """
    if choice.grid is None or choice.anchor is None or choice.supervised is None:
        raise ValueError(f"{choice.method} has no coefficient to turn")
    scores = choice.anchor + choice.grid[:, None] * choice.supervised
    losses = np.full(len(choice.grid), np.nan) if choice.cv_losses is None else choice.cv_losses
    table = pd.DataFrame(
        {"coefficient": choice.grid, "cv_loss": losses, "index": np.nanargmin(scores, axis=1)}
    )
    table["chosen"] = table["coefficient"] == choice.coefficient
    return table


def contenders(candidates: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the half of the candidates with the lower labeled loss, and the named one in any case."""
    return candidates[(candidates["loss"] <= candidates["loss"].median()) | (candidates["name"] == name)]


def iso_score_line(
    candidates: pd.DataFrame, index: int, coefficient: float, *, points: int = 80
) -> pd.DataFrame:
    """Return the curve of equal anchored score through the candidate with this index: distortion +
    coefficient·loss = its own score.

    Columns distortion, loss; everything below and left of the curve would score better than the candidate.
    """
    own_distance, own_loss = candidates["distortion"].to_numpy()[index], candidates["loss"].to_numpy()[index]
    low, high = float(candidates["loss"].min()), float(candidates["loss"].max())
    losses = np.geomspace(max(low, FLOOR), max(high, FLOOR), points)
    distances = own_distance + coefficient * (own_loss - losses)
    inside = (distances > 0) & (distances <= float(candidates["distortion"].max()))
    return pd.DataFrame({"distortion": distances[inside], "loss": losses[inside]})
