"""What deploying takes, on the Choose page: the limit on time, the picture of memory and time, and the bits
of each layer of a mixed candidate.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pandas as pd
import streamlit as st

from engine.decide.decision import Decision
from engine.decide.frontier import frontier
from engine.predictions.deployed import read_allocation
from engine.types import Predictions
from engine.words import counted, out_of
from pages.ui.parts.page import ink, picture, plain
from pages.ui.session.state import Session
from pages.ui.show.deploy_charts import allocation_bars, latency_scatter

_HERE = "Times were measured on the processor that ran the candidates, one thread, beside the float teacher."


def latency_slider(session: Session, predictions: Predictions) -> None:
    """Let the person limit the time; a new limit forgets the choice but neither labels nor predictions."""
    times = predictions.latency
    if times is None or np.isnan(times).all():
        return
    lowest, highest = (math.ceil(20 * v) / 20 for v in (float(np.nanmin(times)), float(np.nanmax(times))))
    if lowest >= highest:
        return
    current = session.record.max_latency
    limit = st.slider(
        "Limit on time, × the float teacher's",
        lowest,
        highest,
        highest if current is None else min(max(current, lowest), highest),
        step=0.05,
        format="%.2f ×",
        key=f"latency-{lowest}-{highest}",
        help=f"Only candidates that take at most this share of the float teacher's time. {_HERE}",
    )
    wanted = None if limit >= highest else float(limit)
    if wanted != current:
        session.limit(max_latency=wanted)
    n_fit = int((times <= limit + 1e-9).sum())
    fitting = out_of(n_fit, len(times), "candidate", ("is", "are"))
    st.caption(f"{fitting} within {limit:.2f} × on the processor that ran them.")


def latency_picture(predictions: Predictions, decision: Decision, name: str) -> None:
    """Show memory against time, coloured by loss, the frontier marked; nothing without times."""
    if predictions.latency is None or predictions.cost is None:
        return
    candidates = decision.candidates
    value = "loss" if candidates["loss"].notna().all() else "distortion"
    spread = predictions.latency_spread
    shown = candidates.assign(
        latency=predictions.latency,
        spread=np.nan if spread is None else spread,
        frontier=frontier(predictions.cost, predictions.latency, candidates[value].to_numpy()),
        chosen=candidates["name"] == name,
    )
    best = shown[shown["frontier"]]
    picture(
        f"{out_of(len(best), len(shown), 'candidate', ('is', 'are'))} beaten by no other in memory, time and"
        f" {'loss' if value == 'loss' else 'distance to the teacher'} together",
        latency_scatter(shown[shown["latency"].notna()], value, ink()),
        f"Diamonds: the frontier. Ringed: the candidate shown above. {_HERE}{_modes(predictions, name)}",
    )


def _modes(predictions: Predictions, name: str) -> str:
    """Say both ways a packed file can be opened, for the candidate shown."""
    if predictions.latency_unpacked is None or predictions.latency is None or name not in predictions.names:
        return ""
    index = predictions.names.index(name)
    packed, unpacked = float(predictions.latency[index]), float(predictions.latency_unpacked[index])
    if math.isnan(packed) or math.isnan(unpacked):
        return ""
    return (
        f" {name} takes {packed:.2f} × with its weights kept packed in memory, as shown, and {unpacked:.2f} ×"
        " with its weights unpacked to float when the file is opened."
    )


def allocation_picture(predictions: Predictions, name: str, weights: dict[str, int]) -> None:
    """Show the bits of each layer of a mixed candidate; nothing for another kind. `weights` counts them by
    layer, where that is known.
    """
    bits = read_allocation(predictions.allocation).get(name)
    if not bits:
        return
    layers = pd.DataFrame(
        {
            "place": range(1, len(bits) + 1),
            "layer": list(bits),
            "bits": list(bits.values()),
            "weights": [weights.get(layer, 0) for layer in bits],
        }
    )
    picture(
        plain(f"{name}: {_widths(bits.values())} per weight, layer by layer"),
        allocation_bars(layers),
        "One bar per layer, 32 bits for one left float. Layers were measured one by one on the calibration"
        " images, without labels.",
    )


def _widths(bits: Collection[int]) -> str:
    low, high = min(bits), max(bits)
    return counted(low, "bit") if low == high else f"{low} to {counted(high, 'bit')}"
