"""Tables of a thousand classes cut down to what a person can look at: both ends of the order."""

from __future__ import annotations

import pandas as pd

ENDS = 20  # classes shown at each end


def both_ends(counts: pd.DataFrame, column: str = "labels") -> pd.DataFrame:
    """Return the rows with the most and the fewest in a column, most first; all of them, as they are, if they
    are few.
    """
    if len(counts) <= 2 * ENDS:
        return counts
    ordered = counts.sort_values(column, ascending=False, kind="stable")
    ends = pd.concat([ordered.head(ENDS), ordered.tail(ENDS)])
    return ends.assign(order=range(len(ends)))
