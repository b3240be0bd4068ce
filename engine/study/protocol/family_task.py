"""One family of a study from its file to its tables on disk, the rows last: that is the mark of a finished
family.

Knows which tables a family leaves. The protocol itself is in `one_family`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.predictions.file import load_predictions
from engine.study.protocol.candidates import check_theory, describe_candidates
from engine.study.protocol.one_family import joined_rows, run_family
from engine.study.protocol.plan import Task
from engine.study.protocol.result import write_csv
from engine.study.protocol.truth import check_cohort, measure_truth
from engine.types import Predictions, UserError


def run_task(task: Task) -> str | None:
    """Study one family and leave its tables on disk; return the reason if it cannot take part."""
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # One thread a worker: cores are shared by families, and sums then do not depend on how many there are.
    with threadpool_limits(1):
        try:
            predictions = load_predictions(task.path)
            described = describe(predictions, task)
            rows = run_family(predictions, task.config, name=task.family)
        except UserError as error:
            return str(error)
    return finish(task, [rows], described)


def describe(predictions: Predictions, task: Task) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Check that a family can take part, and return its tables of candidates and of the theory."""
    check_cohort(predictions, measure_truth(predictions, floor=task.config.floors[0]))
    candidates = describe_candidates(predictions, task.config, name=task.family)
    return candidates, check_theory(predictions, name=task.family)


def finish(task: Task, rows: Sequence[pd.DataFrame], described: tuple[pd.DataFrame, ...]) -> str | None:
    """Write a family's tables; return the reason if it has no rows."""
    table = joined_rows(rows)
    if not len(table):
        return (
            "no rule, label budget or memory budget applies to it. Lower the label budgets or raise the"
            " memory budget."
        )
    write_csv(described[0], task.part("candidates"))
    write_csv(described[1], task.part("attenuation"))
    write_csv(table, task.rows)
    return None
