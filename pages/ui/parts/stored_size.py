"""What a candidate takes once it is an ONNX file: whole integers of 2, 4 or 8 bits, so some codes need more
than the recipe says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd
import streamlit as st

from engine.family.cost import CONTAINERS, admissible, stored_bits, stored_costs
from engine.family.kinds import traits_of
from engine.family.model_file import whole_words
from engine.types import Floats
from pages.ui.session.state import Session
from pages.ui.show.words import counted, listed, memory_words, share, size


def stored_note(session: Session, candidates: Iterable[str], costs: Floats, name: str) -> None:
    """Say what the candidate's weights take in the file where that differs from its cost; warn if it breaks
    the budget.
    """
    names, bits = list(candidates), bits_of(name)
    if bits is None or bits > CONTAINERS[-1] or stored_bits(bits) == bits:
        return
    stored = float(stored_costs(names, costs)[names.index(name)])
    takes = f"its weights take {memory_of(session, stored)}"
    why = f"{bits}-bit codes are stored as {stored_bits(bits)}-bit integers"
    budget = session.record.budget
    if budget is None or not stored > budget:
        st.caption(
            f":material/save: In an ONNX file {takes}: {why}."
            if stored == stored
            else f":material/save: In an ONNX file {why}."
        )
        return
    fewer = max(width for width in CONTAINERS if width < bits)
    st.warning(
        f"In an ONNX file {takes}, more than your budget of {share(budget)}: {why}. "
        f"If the file itself must fit, choose a candidate of {fewer} bits, or raise the budget.",
        icon=":material/save:",
    )


def stored_caption(names: Sequence[str], costs: Floats, budget: float | None) -> None:
    """Say which bit widths an ONNX file rounds up, and how many candidates fit the budget as stored."""
    widths = sorted(
        {bits for name in names if (bits := bits_of(name)) is not None and bits <= CONTAINERS[-1]}
    )
    rounded = [f"{bits} bits as {stored_bits(bits)}" for bits in widths if stored_bits(bits) != bits]
    if not rounded:
        return
    words = (
        "This is the memory of the bare codes. An ONNX file has integers of 2, 4 and 8 bits only and stores"
        f" {listed(rounded)}"
    )
    stored = stored_costs(names, costs)
    if budget is not None and not pd.isna(stored).any():
        words += (
            f"; as stored, {int(admissible(stored, budget).sum())} of {counted(len(names), 'candidate')} fit"
        )
    st.caption(f"{words}.")


def others_table(session: Session, candidates: pd.DataFrame, indices: Sequence[int]) -> pd.DataFrame:
    """Some of the candidates with their memory, as codes and in a file, cheapest first."""
    stored = pd.Series(
        stored_costs(list(candidates["name"]), candidates["cost"].to_numpy()), candidates.index
    )
    rows, n_bytes = candidates.loc[list(indices)].sort_values("cost", kind="stable"), float_bytes(session)
    return pd.DataFrame(
        {
            "Candidate": rows["name"],
            "Memory ↓ (%)": 100 * rows["cost"],
            "In ONNX ↓ (%)": 100 * stored[rows.index],
            "Size ↓": [size(cost * n_bytes) if n_bytes else None for cost in rows["cost"]],
        }
    ).dropna(axis="columns", how="all")


def memory_of(session: Session, cost: float) -> str:
    """What a share of memory comes to in this session: of the float teacher, or of the file that sizes are
    compared with where nobody has one.
    """
    return memory_words(cost, float_bytes(session), whole_of(session))


def whole_of(session: Session) -> str:
    """What the memory of candidates is a share of."""
    return whole_words(None if session.predictions is None else session.predictions.reference)


def float_bytes(session: Session) -> int | None:
    """The teacher's weight memory as float, once it was read."""
    return session.teacher.float_bytes if session.teacher else None


def bits_of(name: str) -> int | None:
    """How many bits a candidate's codes have; None if its name is no recipe."""
    traits = traits_of(name)
    return None if traits is None else traits.bits
