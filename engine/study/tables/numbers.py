"""How a table's cells read: three significant digits, shares as percentages, plain column heads; and tables
as Markdown.

Knows tables as text. Knows nothing of what they mean beyond their column names.
"""

from __future__ import annotations

import math

import pandas as pd

_PERCENT = {
    "rate",
    "memory_budget",
    "catastrophic",
    "reverted_to_anchor",
    "at_grid_maximum",
    "control_reverted_to_anchor",
    "channel",
    "tensor",
    "lastaxis",
    "between_shifts",
    "distinct",
}
_HEADS = {
    "n": "labels",
    "rate": "wrong labels",
    "memory_budget": "memory budget",
    "percentile_95": "95th percentile",
    "catastrophic": "Pr(R > 0.1)",
    "low_95": "95 % from",
    "high_95": "to",
    "p_holm": "p (Holm)",
    "sd": "± sd",
    "quartile_1": "quartile 1",
    "quartile_3": "quartile 3",
    "ece": "ECE",
    "n_classes": "classes",
    "channel": "per channel",
    "tensor": "per tensor",
    "lastaxis": "per last axis",
}


def head(column: str) -> str:
    """Return the words a reader sees for a column."""
    return _HEADS.get(column, column if "-" in column or "@" in column else column.replace("_", " "))


def cell(value: object, column: str) -> str:
    """Return a cell's text: nan as a dash, no budget as `none`, numbers with three significant digits."""
    if isinstance(value, bool):
        return "yes" if value else ""
    if not isinstance(value, (int, float)):
        return str(value)
    number = float(value)
    if math.isnan(number):
        return "–"
    if math.isinf(number):
        return "none"
    if column in _PERCENT:
        return f"{number:.3g}" if column == "n" else f"{100 * number:.3g} %"
    if number == int(number) and isinstance(value, int):
        return str(value)
    return _digits(number)


def _digits(number: float) -> str:
    if number == 0:
        return "0"
    if abs(number) < 1e-4:
        return f"{number:.1e}"
    # Three digits after the point below one, as the paper prints regret; three significant ones above.
    return f"{number:.3f}" if abs(number) < 10 else f"{number:.3g}"


def cells(table: pd.DataFrame) -> list[list[str]]:
    """Return the table's body as text, row by row."""
    columns = [[cell(value, str(name)) for value in table[name].tolist()] for name in table.columns]
    return [list(row) for row in zip(*columns, strict=True)]


def to_markdown(table: pd.DataFrame) -> str:
    """Return the table as Markdown; a bar inside a cell is escaped."""
    rows = [[head(str(name)) for name in table.columns], ["---"] * table.shape[1], *cells(table)]
    return (
        "\n".join("| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows) + "\n"
    )
