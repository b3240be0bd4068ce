"""What the models answer for each image of the pool, beside its label: the table that people look through.

Pure functions over predictions and labels. Knows no picture and no page.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd

from engine.rules.statistics import PoolStatistics
from engine.types import UNLABELED, Predictions

Which = Literal["labeled", "suspected", "differs", "disagreed", "unsure", "disputed", "unlabeled"]


def answer_table(predictions: Predictions, pool: PoolStatistics, index: int) -> pd.DataFrame:
    """Return one row an image: teacher and pick (class numbers), teacher_probability, pick_probability, and
    split: the share of candidates whose class is not the teacher's.
    """
    classes, tops = pool.teacher_tops
    return pd.DataFrame(
        {
            "row": np.arange(predictions.n_images),
            "teacher": classes,
            "teacher_probability": tops,
            "pick": pool.predicted[index],
            "pick_probability": pool.confidence[index],
            "split": 1 - np.mean(pool.agrees, axis=0),
        }
    )


def browse(
    answers: pd.DataFrame,
    labels: Mapping[int, int],
    which: Which,
    *,
    marked: tuple[int, ...] = (),
    of_class: int | None = None,
) -> pd.DataFrame:
    """Return the rows of an answer table that a filter shows, with a column `label` (-1 = none).

    labeled and unlabeled say what they do; `marked` are the rows of suspected, unsure or disputed (people
    gave it different labels); differs: the label is not the teacher's answer; disagreed: teacher and pick
    answer differently, the most contested first.
    `of_class` keeps images with that label or, where there is none, that teacher's answer.
    """
    table = answers.assign(label=[labels.get(row, UNLABELED) for row in answers["row"]])
    has_label = table["label"] != UNLABELED
    kept = {
        "labeled": has_label,
        "unlabeled": ~has_label,
        "suspected": table["row"].isin(marked),
        "unsure": table["row"].isin(marked),
        "disputed": table["row"].isin(marked),
        "differs": has_label & (table["label"] != table["teacher"]),
        "disagreed": table["teacher"] != table["pick"],
    }[which]
    if of_class is not None:
        kept = kept & (table["label"].where(has_label, table["teacher"]) == of_class)
    table = table[kept]
    if which == "disagreed":
        return table.sort_values("split", ascending=False, kind="stable", ignore_index=True)
    if which == "suspected":
        order = {row: place for place, row in enumerate(marked)}
        return table.sort_values("row", key=lambda rows: rows.map(order), kind="stable", ignore_index=True)
    return table.reset_index(drop=True)
