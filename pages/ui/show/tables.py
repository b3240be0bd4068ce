"""Tables as people read them: plain column heads with direction and unit, three digits. Turns engine tables
into shown ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from engine.decide.decision import Decision
from engine.decide.titles import rule_title
from engine.family.cost import FLOAT_BYTES
from engine.types import TeacherFacts
from pages.ui.show.words import share, size

_NUMBER, _PERCENT = "%.3g", "%.3g %%"


def shown_rules(decision: Decision, float_bytes: int | None) -> pd.DataFrame:
    """What each rule says, without the control rules."""
    rules = decision.rules[decision.rules["group"] != "Control"]
    return pd.DataFrame(
        {
            "Rule": rules["rule"].map(rule_title),
            "Picks": rules["pick"],
            "Memory ↓ (%)": 100 * rules["cost"],
            "Size ↓": [size(cost * float_bytes) if float_bytes else None for cost in rules["cost"]],
            "Loss ↓": rules["loss"],
            "Agrees (%)": 100 * rules["agreement"],
            "Labels": rules["n_labels"],
            "Tied": rules["ties"],
        }
    ).dropna(axis="columns", how="all")


def shown_candidates(candidates: pd.DataFrame, float_bytes: int | None) -> pd.DataFrame:
    """All candidates with their numbers; columns that are empty everywhere are left out."""
    table = pd.DataFrame(
        {
            "Candidate": candidates["name"],
            "Bits": candidates["bits"],
            "Scales per": candidates["granularity"],
            "Clip percentile": candidates["percentile"],
            "Float ends": candidates["float_ends"],
            "Memory ↓ (%)": 100 * candidates["cost"],
            "Size ↓ (kB)": candidates["cost"] * (float_bytes / 1000 if float_bytes else float("nan")),
            "Distance to teacher ↓ (nats)": candidates["distortion"],
            "Agrees with teacher (%)": 100 * candidates["agreement"],
            "Mean confidence (%)": 100 * candidates["confidence"],
            "Loss on labels ↓": candidates["loss"],
            "Right on labels ↑ (%)": 100 * candidates["accuracy"],
            "Score ↓": candidates["score"],
            "Best (%)": 100 * candidates["probability_best"],
            "As good as best (%)": 100 * candidates["probability_close"],
            "Expected regret ↓": candidates["expected_regret"],
            "In budget": candidates["admissible"],
            "Picked by": candidates["picked_by"],
        }
    )
    return table.dropna(axis="columns", how="all")


def column_formats(table: pd.DataFrame) -> dict[str, Any]:
    """Three significant digits for every float column."""
    return {
        name: st.column_config.NumberColumn(format=_NUMBER)
        for name in table.columns
        if table[name].dtype.kind == "f"
    }


def layer_table(teacher: TeacherFacts) -> pd.DataFrame:
    """One row a layer: name, order, shape, bytes, size, kind, operator; the rest of the graph as one last
    row.
    """
    last = len(teacher.kernels) - 1
    rows: list[dict[str, Any]] = []
    for order, kernel in enumerate(teacher.kernels):
        n_bytes = kernel.size * FLOAT_BYTES
        kind = "first or last: can stay float" if order in (0, last) else "quantizable"
        shape = " × ".join(map(str, kernel.shape))
        rows.append(
            {
                "layer": kernel.name,
                "order": order + 1,
                "operator": kernel.op,
                "shape": shape,
                "bytes": n_bytes,
                "kind": kind,
            }
        )
    rest = teacher.float_bytes - sum(row["bytes"] for row in rows)
    rows.append(
        {
            "layer": "biases, norms and the rest",
            "order": last + 2,
            "operator": "",
            "shape": "",
            "bytes": rest,
            "kind": "always float",
        }
    )
    table = pd.DataFrame(rows)
    return table.assign(
        size=table["bytes"].map(size), share_of_float=(table["bytes"] / teacher.float_bytes).map(share)
    )


_SHORT = {
    "auto": "recommended",
    "calibrated": "calibrated",
    "ce-combo": "CE-combo",
    "val-ce": "direct validation",
    "distortion": "closest to teacher",
    "softmax-corr": "SoftmaxCorr",
    "avg-confidence": "most confident",
}
_CROWDED = 0.3  # share within which names above their points would run into each other
_NEAR = 0.07  # share of the picture's width and height within which two names would cover each other


def picks_table(
    decision: Decision, chosen: str, rules: tuple[str, ...], axes: tuple[str, str]
) -> pd.DataFrame:
    """The picks to name in a picture whose axes are two candidate columns; picks that lie close share one
    name tag.

    Columns: distortion, loss, cost, label, main (the ringed one), side (which side of its point the name is
    written on), lift (pixels above the point).
    """
    table = decision.candidates
    places = pd.DataFrame(
        {axis: np.log(table[axis].clip(lower=1e-5)) if axis != "cost" else table[axis] for axis in axes}
    )
    places = (places - places.min()) / (places.max() - places.min()).replace(0, 1)
    main = int(table.index[table["name"] == chosen][0])
    tags: dict[int, list[str]] = {main: [] if chosen == decision.recommended.name else ["your choice"]}
    for rule in rules:
        if rule in decision.choices:
            index = decision.choices[rule].index
            gaps = (places.loc[list(tags)] - places.loc[index]).abs().max(axis=1)
            near = list(tags)[int(gaps.to_numpy().argmin())]
            tags.setdefault(near if gaps.min() < _NEAR else index, []).append(_SHORT[rule])
    rows = table.loc[list(tags), ["distortion", "loss", "cost"]]
    across = places[axes[0]].astype(float).to_dict()
    side = ["right" if across[index] < 0.55 else "left" for index in tags]
    return rows.assign(
        label=[_tag(names) for names in tags.values()],
        main=[index == main for index in tags],
        side=side,
        lift=_lifts(places.loc[list(tags)], main),
    )


def _lifts(places: pd.DataFrame, main: int) -> list[int]:
    """How many pixels above its point each name stands: the main one below, the others above, higher where
    names would meet.
    """
    lifts: dict[int, int] = {}
    for index, place in places.iterrows():
        near = [
            other for other in lifts if other != main and (places.loc[other] - place).abs().max() < _CROWDED
        ]
        lifts[int(index)] = -18 if index == main else 14 + 16 * len(near)  # type: ignore[call-overload]
    return list(lifts.values())


def _tag(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" +{len(names) - 2}" if len(names) > 2 else "")


def shown_health(health: pd.DataFrame, *, is_proxy: bool) -> pd.DataFrame:
    """The collapse diagnostics of every candidate."""
    quality = "Agrees with teacher ↑ (%, proxy)" if is_proxy else "Right on labels ↑ (%)"
    return pd.DataFrame(
        {
            "Candidate": health["name"],
            quality: 100 * health["quality"],
            "from (95 %)": 100 * health["low"],
            "to": 100 * health["high"],
            "Mean confidence (%)": 100 * health["confidence"],
            "Distinct confidences (%)": 100 * health["distinct"],
            "Share given to one class (%)": 100 * health["top_class_share"],
            "One class only": health["single_class"],
            "Collapsed": health["collapsed"],
        }
    )


def shown_family(family: pd.DataFrame, float_bytes: int | None) -> pd.DataFrame:
    """The grid as a table, before anything was run."""
    return pd.DataFrame(
        {
            "Candidate": family["name"],
            "Bits": family["bits"],
            "Scales per": family["granularity"],
            "Clip percentile": family["percentile"],
            "Float ends": family["float_ends"],
            "Memory ↓ (%)": 100 * family["cost"],
            "In ONNX ↓ (%)": 100 * family["stored"],
            "Size ↓": [size(cost * float_bytes) if float_bytes else None for cost in family["cost"]],
            "In budget": family["admissible"],
        }
    ).dropna(axis="columns", how="all")


def class_counts(labels: tuple[int, ...], class_names: tuple[str, ...]) -> pd.DataFrame:
    """How many labels each class has: columns class, order, labels."""
    counts = pd.Series(labels, dtype="int64").value_counts()
    return pd.DataFrame(
        {
            "class": class_names,
            "order": range(len(class_names)),
            "labels": [int(counts.get(k, 0)) for k in range(len(class_names))],
        }
    )


def records(data: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as plain dicts, for sentences."""
    return [{str(name): value for name, value in row.items()} for row in data.to_dict("records")]
