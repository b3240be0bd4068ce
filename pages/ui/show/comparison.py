"""Comparisons as people read them: one column a model, shares in percent, changes with their intervals."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from engine.diagnose.comparison import Interval, Quality
from engine.family.model_file import whole_words
from engine.types import Floats, Predictions
from pages.ui.show.words import number, share, size

TEACHER = "teacher"


def side_by_side(
    qualities: Mapping[str, Quality | None],
    candidates: pd.DataFrame,
    predictions: Predictions,
    teacher_confidence: float,
    file_sizes: Floats | None = None,
) -> pd.DataFrame:
    """One row a measure, one column a model; a dash where it is not known.

    `candidates` holds the candidates' rows of the decision's table, indexed by name; `teacher_confidence` is
    the mean over the pool; `file_sizes` (M,) are the bytes of each candidate's file. Sizes of files and times
    have a row only where they are known.
    """
    rows: dict[str, list[str]] = {
        "Right on your labels ↑ (95 %)": [_percent(q.accuracy if q else None) for q in qualities.values()],
        "Loss on your labels ↓ (nats, 95 %)": [_nats(q.loss if q else None) for q in qualities.values()],
        "Calibration error ↓ (ECE)": [share(q.ece if q else None) for q in qualities.values()],
    }
    has_teacher = predictions.reference is None  # what stands in for one takes no memory of its own
    teachers = {
        "agreement": 1.0,
        "confidence": teacher_confidence,
        "cost": 1.0 if has_teacher else float("nan"),
    }
    for words, column in {
        "Same class as the teacher ↑": "agreement",
        "Mean confidence": "confidence",
        f"Memory ↓ (of {whole_words(predictions.reference)})": "cost",
    }.items():
        known = {**candidates[column], TEACHER: teachers[column]}
        rows[words] = [share(float(known[name])) for name in qualities]
    if file_sizes is not None:
        sizes = dict(zip(predictions.names, file_sizes, strict=True))
        rows["File ↓"] = [size(sizes[name]) if name in sizes else "–" for name in qualities]
    if predictions.latency is not None:
        times = dict(zip(predictions.names, predictions.latency, strict=True))
        rows["Time an image ↓ (of the teacher's)"] = [share(times.get(name, 1.0)) for name in qualities]
    return pd.DataFrame(
        {"Measure": list(rows), **dict(zip(qualities, zip(*rows.values(), strict=True), strict=True))}
    )


def _percent(value: Interval | None) -> str:
    return "–" if value is None else f"{share(value.value)} ({share(value.low)} to {share(value.high)})"


def _nats(value: Interval | None) -> str:
    return "–" if value is None else f"{number(value.value)} ({number(value.low)} to {number(value.high)})"


def class_table(effects: pd.DataFrame, class_names: tuple[str, ...]) -> pd.DataFrame:
    """The effect on every class that has labels, the worst loss first."""
    return pd.DataFrame(
        {
            "Class": [class_names[k] for k in effects["class"]],
            "Change (points, 95 %)": [
                f"{_points(change)} ({_points(low)} to {_points(high)})"
                for change, low, high in zip(effects["change"], effects["low"], effects["high"], strict=True)
            ],
            "Labels": effects["labels"],
            "Right before → after (%)": [
                f"{100 * before:.0f} → {100 * after:.0f}"
                for before, after in zip(effects["before"], effects["after"], strict=True)
            ],
        }
    )


def _points(change: float) -> str:
    """A change in percentage points, with its sign unless it is none."""
    return f"{100 * change:+.0f}" if round(100 * change) else "0"


def confusion_table(changes: pd.DataFrame, class_names: tuple[str, ...]) -> pd.DataFrame:
    """Mistakes that became more or less frequent."""
    return pd.DataFrame(
        {
            "It is": [class_names[k] for k in changes["true"]],
            "Answered": [class_names[k] for k in changes["answered"]],
            "Teacher": changes["before"],
            "Candidate": changes["after"],
            "Change": changes["change"],
        }
    )
