"""What the paper measured, as a yardstick: mean regret of direct validation and CE-combo by budget, and its
label-free rules.

Numbers only. They come from the paper's four settings and are shown beside a study's own, never mixed with
them.
"""

from __future__ import annotations

import pandas as pd

from engine.study.protocol.result import StudyResult
from engine.study.tables.regret import family_means, outcomes

# setting -> {(wrong labels, labels): (direct validation, CE-combo)}, mean regret
SWEEPS: dict[str, dict[tuple[float, int], tuple[float, float]]] = {
    "ResNet50, DomainNet": {
        (0.0, 10): (0.1819, 0.1664),
        (0.0, 25): (0.1015, 0.1047),
        (0.0, 50): (0.0619, 0.0702),
        (0.0, 100): (0.0334, 0.0372),
        (0.0, 150): (0.0282, 0.0276),
        (0.0, 300): (0.0132, 0.0071),
        (0.2, 10): (0.326, 0.234),
        (0.2, 25): (0.145, 0.111),
        (0.2, 50): (0.118, 0.083),
        (0.2, 100): (0.104, 0.071),
        (0.2, 300): (0.087, 0.073),
        (0.4, 10): (0.393, 0.278),
        (0.4, 25): (0.361, 0.230),
        (0.4, 50): (0.317, 0.216),
        (0.4, 100): (0.288, 0.194),
        (0.4, 300): (0.232, 0.202),
    },
    "MobileNetV2, DomainNet": {
        (0.0, 10): (0.2270, 0.1026),
        (0.0, 25): (0.0828, 0.0440),
        (0.0, 50): (0.0350, 0.0227),
        (0.0, 100): (0.0130, 0.0116),
        (0.0, 150): (0.0075, 0.0089),
        (0.0, 300): (0.0012, 0.0049),
        (0.2, 10): (0.728, 0.406),
        (0.2, 25): (0.308, 0.143),
        (0.2, 50): (0.285, 0.135),
        (0.2, 100): (0.260, 0.136),
        (0.2, 300): (0.193, 0.099),
        (0.4, 10): (0.864, 0.485),
        (0.4, 25): (0.708, 0.513),
        (0.4, 50): (0.765, 0.601),
        (0.4, 100): (0.768, 0.684),
        (0.4, 300): (0.844, 0.803),
    },
    "ViT, DomainNet": {
        (0.0, 10): (0.2078, 0.1395),
        (0.0, 25): (0.0912, 0.0822),
        (0.0, 50): (0.0593, 0.0634),
        (0.0, 100): (0.0287, 0.0343),
        (0.0, 150): (0.0165, 0.0215),
    },
    "ViT, CIFAR-20": {
        (0.0, 10): (0.2215, 0.1155),
        (0.0, 25): (0.0998, 0.0880),
        (0.0, 50): (0.0541, 0.0636),
        (0.0, 100): (0.0373, 0.0550),
        (0.0, 150): (0.0270, 0.0458),
    },
}
# setting -> {rule: mean regret without labels}
LABEL_FREE_REGRET: dict[str, dict[str, float]] = {
    "ResNet50, DomainNet": {
        "distortion": 0.220,
        "softmax-corr": 0.212,
        "cot": 0.257,
        "nuclear-norm": 0.277,
        "doc": 0.221,
        "atc-mc": 14.489,
        "avg-confidence": 15.125,
    },
    "MobileNetV2, DomainNet": {
        "distortion": 0.087,
        "softmax-corr": 0.061,
        "cot": 0.007,
        "nuclear-norm": 0.013,
        "doc": 0.086,
        "atc-mc": 4.461,
        "avg-confidence": 10.654,
    },
    "ViT, DomainNet": {
        "distortion": 0.284,
        "softmax-corr": 0.224,
        "cot": 0.278,
        "nuclear-norm": 0.280,
        "doc": 0.284,
        "atc-mc": 0.284,
        "avg-confidence": 0.919,
    },
    "ViT, CIFAR-20": {
        "distortion": 0.096,
        "softmax-corr": 0.083,
        "cot": 0.098,
        "nuclear-norm": 0.098,
        "doc": 0.095,
        "atc-mc": 0.095,
        "avg-confidence": 0.442,
    },
}
_MOST_FAMILIES = 12  # with more, a line per setting says enough


def _who(result: StudyResult) -> str:
    return "family" if len(result.families) <= _MOST_FAMILIES else "setting"


def anchoring_beside_the_paper(result: StudyResult) -> pd.DataFrame:
    """Does anchoring gain here what it gained there? CE-combo minus direct validation, a column per number of
    labels.
    """
    who = _who(result)
    means = family_means(outcomes(result), ["setting", "rule", "n", "rate"])
    pairs = means[means["rule"].isin(("ce-combo", "val-ce"))]
    if len(set(pairs["rule"])) < 2:
        return pd.DataFrame()
    cells = pairs.pivot_table(index=[who, "rate", "n"], columns="rule", values="regret").reset_index()
    ours = [
        ("here", row[who], row["rate"], row["n"], row["ce-combo"] - row["val-ce"])
        for row in cells.to_dict("records")
    ]
    rates = set(cells["rate"])
    theirs = [
        ("paper", setting, rate, n, anchored - direct)
        for setting, sweep in SWEEPS.items()
        for (rate, n), (direct, anchored) in sweep.items()
        if rate in rates
    ]
    long = pd.DataFrame([*ours, *theirs], columns=["source", "models", "rate", "n", "difference"])
    order = {name: at for at, name in enumerate(dict.fromkeys(long["models"]))}
    out = (
        long.pivot_table(index=["rate", "source", "models"], columns="n", values="difference")
        .reset_index()
        .rename_axis(columns=None)
    )
    out = (
        out.assign(order=out["models"].map(order))
        .sort_values(["rate", "source", "order"], kind="stable")
        .drop(columns="order")
    )
    return out.rename(columns={n: f"{n} labels" for n in set(long["n"])}).reset_index(drop=True)


def label_free_beside_the_paper(result: StudyResult) -> pd.DataFrame:
    """Which label-free rule can be trusted, here and there? Mean regret, one column a rule."""
    who = _who(result)
    table = outcomes(result)
    table = table[table["n"] == 0]
    rules = [rule for rule in next(iter(LABEL_FREE_REGRET.values())) if rule in set(table["rule"])]
    if not rules:
        return pd.DataFrame()
    ours = (
        table[table["rule"].isin(rules)]
        .pivot_table(index=who, columns="rule", values="regret")
        .reset_index()
        .rename(columns={who: "models"})
    )
    theirs = pd.DataFrame([{"models": setting, **regret} for setting, regret in LABEL_FREE_REGRET.items()])
    joined = pd.concat([ours.assign(source="here"), theirs.assign(source="paper")], ignore_index=True)
    return joined[["source", "models", *rules]].rename_axis(columns=None)
