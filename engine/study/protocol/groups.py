"""Which families belong together: setting, shift, seed and execution, from a small CSV or by default.

Knows the groups file. The statistical unit is the family; executions of one configuration are averaged for
paired tests.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from engine.types import UserError

GROUP_COLUMNS = ("family", "setting", "shift", "seed", "execution")
ALL_FAMILIES = "all families"


def read_groups(path: str | Path) -> pd.DataFrame:
    """Read a CSV with the columns family,setting and optionally shift,seed,execution, all as text.

    Raises UserError for a missing file or column, an empty setting, or a family listed twice.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path} is not a file. Give a CSV with the columns {','.join(GROUP_COLUMNS)}.")
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path.name} is not a readable CSV ({error}). Give the columns {','.join(GROUP_COLUMNS)}."
        ) from None
    absent = [column for column in ("family", "setting") if column not in table]
    if absent:
        raise UserError(
            f"{path.name} has no column {absent[0]!r}. Its first line must be {','.join(GROUP_COLUMNS)} (the"
            " last three may be left out)."
        )
    table = table.assign(**{column: "" for column in GROUP_COLUMNS if column not in table})
    table = pd.DataFrame({column: table[column].str.strip() for column in GROUP_COLUMNS})
    repeated = table["family"][table["family"].duplicated()]
    if len(repeated):
        raise UserError(f"{path.name} lists the family {repeated.iloc[0]!r} twice. Keep one line each.")
    if (table["setting"] == "").any():
        raise UserError(
            f"{path.name} has no setting for {table['family'][table['setting'] == ''].iloc[0]!r}. Fill it in."
        )
    return table


def one_group(families: Sequence[str]) -> pd.DataFrame:
    """Return the default groups: every family in one setting, each a unit of its own."""
    table = pd.DataFrame({"family": list(families), "setting": ALL_FAMILIES})
    return table.assign(shift="", seed="", execution="")[list(GROUP_COLUMNS)]


def units(groups: pd.DataFrame) -> pd.Series:
    """Return the paired unit of each row of `groups`: its shift and seed, or the family itself where neither
    is given.
    """
    configured = (groups["shift"] != "") | (groups["seed"] != "")
    return (groups["shift"] + "/" + groups["seed"]).where(configured, groups["family"])
