"""What a study found, in one sentence per question: the titles of its pictures and the head of its report.

Reads the tables. Says what the numbers say, also when the anchored rule loses.
"""

from __future__ import annotations

import numpy as np

from engine.study.protocol.result import StudyResult
from engine.study.tables import comparisons
from engine.study.tables import families as family_tables
from engine.study.tables import regret as tables
from engine.words import counted, listed, percent


def smallest(result: StudyResult) -> str:
    """Which rule has the lowest mean regret with the fewest labels?"""
    table = tables.regret_at_smallest_budget(result)
    if not len(table):
        return "No rule was run"
    table = table[~table["rule"].isin(tables.ABLATIONS)]
    means = (
        table.groupby(["rule", "labels"], sort=False)["mean_regret"]
        .mean()
        .reset_index()
        .sort_values("mean_regret", kind="stable")
    )
    best, free = means.iloc[0], means[means["labels"] == "none"]
    labels = "without labels" if best["labels"] == "none" else f"with {counted(int(best['labels']), 'label')}"
    sentence = f"Lowest mean regret: {best['rule']}, {best['mean_regret']:.3f}, {labels}"
    if best["labels"] != "none" and len(free):
        sentence += f"; the best label-free rule is {free['rule'].iloc[0]}, {free['mean_regret'].iloc[0]:.3f}"
    return sentence


def budgets(result: StudyResult) -> str:
    """With how many clean labels is the anchored rule better on average?"""
    table = comparisons.where_anchoring_wins(result)
    if not len(table):
        return "Mean regret by number of labels"
    clean = table[table["rate"] == 0].groupby("n")[["val-ce", "ce-combo"]].mean()
    better = [int(n) for n in clean.index[clean["ce-combo"] < clean["val-ce"]]]
    worse = [int(n) for n in clean.index[clean["ce-combo"] > clean["val-ce"]]]
    if not better:
        return "The anchored rule does not lower mean regret at any number of labels"
    if not worse:
        return "The anchored rule lowers mean regret at every number of labels"
    helped, hurt = _numbers(better), _numbers(worse)
    return f"The anchored rule lowers mean regret at {helped} labels and raises it at {hurt}"


def families(result: StudyResult) -> str:
    """In how many families does the anchored rule do better with the fewest labels, as right as they get?"""
    table = comparisons.where_anchoring_wins(result)
    if not len(table):
        return "Mean regret, family by family"
    rate = float(table["rate"].min())
    rightest = table[table["rate"] == rate]
    fewest = rightest[rightest["n"] == rightest["n"].min()]
    n, better, total = (
        int(fewest["n"].min()),
        int(fewest["families_better"].sum()),
        int(fewest["families"].sum()),
    )
    return (
        f"With {counted(n, 'label')}{_wrong(rate)} the anchored rule does better than direct validation in"
        f" {better} of {counted(total, 'family', 'families')}"
    )


def _wrong(rate: float) -> str:
    return f", {percent(rate)} of them wrong," if rate else ""


def corruption(result: StudyResult) -> str:
    """In how many corrupted cells does the anchored rule beat direct validation, and which rule is lowest?"""
    table = comparisons.where_anchoring_wins(result)
    wrong = table[table["rate"] > 0] if len(table) else table
    if not len(wrong):
        return "Mean regret under wrong labels"
    grid = tables.corruption_grid(result)
    lowest = grid[grid["rate"] > 0]["lowest"].value_counts()
    wins = int((wrong["difference"] < 0).sum())
    return (
        f"With wrong labels the anchored rule beats direct validation in {wins} of"
        f" {counted(len(wrong), 'cell')}; lowest most"
        f" often is {lowest.index[0]}, in {lowest.iloc[0]}"
    )


def paired(result: StudyResult) -> str:
    """How many differences survive correction?"""
    table = comparisons.paired_inference(result)
    table = table[table["comparison"] == "ce-combo − val-ce"] if len(table) else table
    if not len(table):
        return "Paired differences"
    clear = table[table["p_holm"] < 0.05]
    helped, harmed = int((clear["difference"] < 0).sum()), int((clear["difference"] > 0).sum())
    units = int(table["units"].max())
    few = (
        f" ({units} units: a two-sided test cannot go below p = {2 ** (1 - units):.2g})" if units < 7 else ""
    )
    return (
        f"The anchored rule is clearly better in {counted(helped, 'cell')} and clearly worse in {harmed}, of"
        f" {len(table)}{few}"
    )


def regimes(result: StudyResult) -> str:
    """Is confidence a hint or a trap, and in how many families?"""
    if not len(result.candidates):
        return "Confidence against accuracy"
    worst = result.candidates.loc[result.candidates.groupby("family")["loss"].idxmax()].set_index("family")[
        "confidence"
    ]
    best = result.candidates.loc[result.candidates.groupby("family")["loss"].idxmin()].set_index("family")[
        "confidence"
    ]
    inverted = int((worst > best).sum())
    if inverted == 0:
        return "In no family is the worst candidate more confident than the best"
    where = (
        "in every family"
        if inverted == len(best)
        else f"in {inverted} of {counted(len(best), 'family', 'families')}"
    )
    return f"The worst candidate is more confident than the best {where}: confidence misleads there"


def coefficients(result: StudyResult) -> str:
    """How often do labels fail to move the choice?"""
    table = tables.coefficients(result)
    table = table[(table["rate"] == 0) & (table["rule"] == "ce-combo")] if len(table) else table
    if not len(table):
        return "Coefficients chosen by cross-validation"
    by_n = table.groupby("n")["reverted_to_anchor"].mean()
    few, many = int(by_n.index.min()), int(by_n.index.max())
    return (
        f"CE-combo falls back to the anchor in {percent(by_n[few])} of outcomes with {counted(few, 'label')},"
        f" {percent(by_n[many])} with {many}"
    )


def cost(result: StudyResult) -> str:
    """What does the middle memory budget cost?"""
    table = family_tables.cost_frontier(result)
    table = table[np.isfinite(table["memory_budget"])] if len(table) else table
    if not len(table):
        return "Loss within a memory budget"
    loosest = table[table["memory_budget"] == table["memory_budget"].max()]
    return (
        f"A budget of {percent(loosest['memory_budget'].iloc[0])} of float memory costs"
        f" {loosest['excess_over_free'].mean():.3f} nats on average"
    )


def attenuation(result: StudyResult) -> str:
    """How far is the theory from the measurement?"""
    table = family_tables.attenuation(result)
    if not len(table):
        return "Attenuation under wrong labels"
    return (
        "Wrong labels shrink linear criteria to within"
        f" {table['largest_gap'].max():.3f} of what the theory predicts"
    )


def summary(result: StudyResult) -> list[str]:
    """The study in a few sentences, for the head of the report and the command line."""
    sentences = [*_left_out(result), smallest(result)]
    if len(comparisons.where_anchoring_wins(result)):
        sentences += [budgets(result), families(result)]
        if len(tables.corruption_grid(result)):
            sentences.append(corruption(result))
        sentences.append(paired(result))
    if len(result.candidates):
        sentences.append(regimes(result))
    optimal = family_tables.anchor_already_optimal(result)
    if len(optimal):
        sentences.append(
            f"The candidate closest to the teacher is already the best in {optimal['already_optimal'].sum()}"
            f" of {counted(int(optimal['families'].sum()), 'family', 'families')}"
        )
    return [f"{sentence}." for sentence in sentences]


def _left_out(result: StudyResult) -> list[str]:
    """What was asked for and gave no row: nobody should have to notice that by its absence."""
    asked, rows, sentences = result.metadata.get("config", {}), result.results, []
    too_many = [n for n in asked.get("budgets", ()) if n not in set(rows["n"])]
    if too_many:
        sentences.append(
            f"No family has as many labels as {_numbers(too_many)}, so nothing was chosen with that many"
        )
    unrun = [rule for rule in asked.get("rules", ()) if rule not in set(rows["rule"].str.partition("@")[0])]
    if unrun:
        sentences.append(f"Without enough labels there is no result for {', '.join(unrun)}")
    fitting = rows["memory_budget"].dropna().unique()
    too_small = [
        limit
        for limit in asked.get("memory_budgets", ())
        if limit is not None and not np.isclose(fitting, limit).any()
    ]
    if too_small:
        sentences.append(
            f"No candidate fits a memory budget of {', '.join(f'{limit:.2g}' for limit in too_small)}"
        )
    return sentences


def _numbers(values: list[int]) -> str:
    return listed([str(value) for value in values], len(values))
