"""The list of a study's tables: for each its name, the question it answers and the function that makes it.

Knows the order in which a reader meets them. Report, command line and page all read this list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from engine.study.protocol.result import StudyResult
from engine.study.tables import comparisons, paper
from engine.study.tables import families as family_tables
from engine.study.tables import regret as tables


@dataclass(frozen=True)
class Table:
    """One table of a study: its file name, the question in a reader's words, how to read it, and how it is
    made.
    """

    name: str
    question: str
    note: str
    make: Callable[[StudyResult], pd.DataFrame]


CATALOG: tuple[Table, ...] = (
    Table(
        "regret_at_smallest_budget",
        "What does each rule cost with the fewest labels?",
        "Mean regret over families with its standard deviation, lower is better; label-free rules hold at any"
        " number of labels. Regret is the test cross-entropy of the pick minus that of the best candidate.",
        tables.regret_at_smallest_budget,
    ),
    Table(
        "where_anchoring_wins",
        "With how many labels does the anchor help?",
        "Mean regret of direct validation and of CE-combo, and the number of families in which the anchored"
        " rule does better or worse.",
        comparisons.where_anchoring_wins,
    ),
    Table(
        "regret_by_budget",
        "How does mean regret fall as labels accumulate?",
        "Mean over families, clean labels; distortion needs none.",
        tables.regret_by_budget,
    ),
    Table(
        "median_regret_by_budget",
        "And the typical family?",
        "Median over families of each family's mean, clean labels.",
        tables.median_regret_by_budget,
    ),
    Table(
        "regret_by_family",
        "Which family drives the averages?",
        "Mean regret over repetitions, clean labels.",
        tables.regret_by_family,
    ),
    Table(
        "corruption_grid",
        "What if labels are few and wrong?",
        "Mean regret; a wrong label always differs from the true one.",
        tables.corruption_grid,
    ),
    Table(
        "paired_inference",
        "Are the differences more than luck?",
        "Negative favours the first rule. Sign-flip test over units (executions averaged), Holm within a row;"
        " run-bootstrap 95 % intervals.",
        comparisons.paired_inference,
    ),
    Table(
        "tail",
        "How bad can it get?",
        "95th percentile of regret and the share above 0.1, pooled over families and subsets.",
        tables.tail,
    ),
    Table(
        "coefficients",
        "How far do labels move the choice from the anchor?",
        "Coefficient chosen by cross-validation; zero reverts to the anchor.",
        tables.coefficients,
    ),
    Table(
        "controls",
        "What does the direction add to the shrinkage?",
        "Median regret. The permutation control keeps the shrinkage and destroys the direction.",
        tables.controls,
    ),
    Table(
        "regimes",
        "Does confidence rise or fall as candidates degrade?",
        "Median regret of the confidence rules; correlation of accuracy with confidence over candidates;"
        " confidence of the worst and the best candidate.",
        family_tables.regimes,
    ),
    Table(
        "collapse_by_bits",
        "Where does the family break?",
        "Share of candidates at no more than 1.5 times chance accuracy.",
        family_tables.collapse_by_bits,
    ),
    Table(
        "anchor_already_optimal",
        "Is the anchor's pick already the best?",
        "Families in which the candidate closest to the teacher has the lowest test loss, and which candidate"
        " it is.",
        family_tables.anchor_already_optimal,
    ),
    Table(
        "restricted_families",
        "Is one catastrophic candidate to blame?",
        "The anchor's median regret inside parts of the family, against the best of that part.",
        family_tables.restricted_families,
    ),
    Table(
        "cost_frontier",
        "What does a memory budget cost?",
        "Budget as a share of float memory; excess is what the constraint costs, spread is what selection can"
        " still lose or gain inside it.",
        family_tables.cost_frontier,
    ),
    Table(
        "constrained_selection",
        "Does the choice survive a memory budget?",
        "Mean regret against the best admissible candidate.",
        tables.constrained_selection,
    ),
    Table(
        "calibration_audit",
        "Why does validation leave the anchor's pick?",
        "Medians over families; difference is validation minus distortion, mean with a run-bootstrap 95 %"
        " interval. Test labels explain here, they never decide.",
        family_tables.calibration_audit,
    ),
    Table(
        "attenuation",
        "Does theory predict what wrong labels do?",
        "Slopes of corrupted on clean statistics through the origin, beside 1 − Kη/(K−1); the identities'"
        " largest error checks the arithmetic.",
        family_tables.attenuation,
    ),
    Table(
        "anchor_placement",
        "Must the anchor be the teacher's distortion on the whole pool?",
        "Mean regret with other anchors.",
        tables.anchor_placement,
    ),
    Table(
        "floor_sensitivity",
        "Do the magnitudes depend on the probability floor?",
        "Mean regret at each floor.",
        tables.floor_sensitivity,
    ),
    Table(
        "between_shift_variance",
        "Is a rule unstable, or are the shifts different?",
        "Share of the variance over families that lies between shifts.",
        comparisons.between_shift_variance,
    ),
    Table(
        "anchoring_beside_the_paper",
        "Does the anchored rule gain here what the paper reports?",
        "CE-combo minus direct validation, mean regret: negative means that the anchor helps. The paper's"
        " lines are its own settings, for scale.",
        paper.anchoring_beside_the_paper,
    ),
    Table(
        "label_free_beside_the_paper",
        "Which label-free rule can be trusted, here and in the paper?",
        "Mean regret without any label. Confidence rules break where candidates collapse with full"
        " confidence.",
        paper.label_free_beside_the_paper,
    ),
)


def make_tables(result: StudyResult) -> dict[str, pd.DataFrame]:
    """Make every table the study can fill, by name, in reading order; tables with nothing to say are left
    out.
    """
    made = {table.name: table.make(result) for table in CATALOG}
    return {name: table for name, table in made.items() if len(table)}
