"""What a session remembers on disk, step by step, and what must be forgotten when an early step changes.
Plain data.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

from engine.family.recipes import BITS, PERCENTILES
from pages.ui.workspace.folder import AS_READ


class Step(IntEnum):
    """The way from a teacher to a file, in order of dependence; a change keeps the steps up to one and
    forgets all later ones.
    """

    TEACHER = 1
    CANDIDATES = 2
    TARGET = 3
    LABELS = 4
    RUN = 5
    CHOICE = 6
    EXPORT = 7


def _at(step: Step, default: Any) -> Any:
    return field(default=default, metadata={"step": step})


@dataclass(frozen=True)
class Record:
    """Small facts only; arrays and models are files beside it. Each field belongs to one step."""

    origin: str = _at(Step.TEACHER, "")  # sample, timm, file or predictions
    title: str = _at(Step.TEACHER, "")
    project: str = _at(Step.TEACHER, "")  # a name of one's own for this work
    sample: str = _at(Step.TEACHER, "")
    # preprocessing was changed, so shipped predictions no longer apply
    is_edited: bool = _at(Step.TEACHER, False)
    bits: tuple[int, ...] = _at(Step.CANDIDATES, BITS)
    percentiles: tuple[float, ...] = _at(Step.CANDIDATES, PERCENTILES)
    granularities: tuple[str, ...] = _at(Step.CANDIDATES, ("tensor", "channel"))
    ends: tuple[bool, ...] = _at(Step.CANDIDATES, (False, True))
    family: str = _at(Step.CANDIDATES, "paper")  # which family: paper (or a grid of one's own), deploy, all
    budget: float | None = _at(Step.CANDIDATES, None)  # share of the float teacher's weight memory
    files: str = _at(Step.CANDIDATES, "")  # folder or zip of model files that compete
    files_alone: bool = _at(Step.CANDIDATES, False)  # without the recipes
    target: str = _at(Step.TARGET, "")  # where the images are: "sample", or a path
    label_trust: str = _at(Step.TARGET, "normal")  # how the labels were made: checked, normal or crowd
    class_shares: str = _at(Step.TARGET, "")  # "equal", a share for each class, or "": nobody said
    annotator: str = _at(Step.TARGET, "")  # who is labeling now, if they said so
    max_latency: float | None = _at(Step.RUN, None)  # share of the float teacher's time
    max_bytes: float | None = _at(Step.RUN, None)  # of the file that ships
    predictions_folder: str = _at(Step.RUN, "")  # of shards on the server's disk, opened where it lies
    is_live: bool = _at(Step.RUN, False)  # a sample's family is to be run here, instead of opening what ships
    has_transport: bool = _at(Step.RUN, False)  # optimal transport is slow, so it is scored on request
    chosen: str = _at(Step.CHOICE, "")
    chosen_how: str = _at(Step.CHOICE, "")  # recommended, cheapest, dial or own
    chosen_at: int = _at(Step.CHOICE, 0)  # events in the label file when it was chosen
    exported_at: int = _at(Step.EXPORT, 0)  # and when the file was written

    @property
    def has_standard_grid(self) -> bool:
        """Whether the family is the standard one of 72."""
        return self.family == "paper" and (self.bits, self.percentiles, self.granularities, self.ends) == (
            BITS,
            PERCENTILES,
            ("tensor", "channel"),
            (False, True),
        )

    @property
    def uses_shipped_predictions(self) -> bool:
        """Whether the sample's ready-made predictions answer for this teacher, this family and these
        images.
        """
        return (
            bool(self.sample)
            and self.has_standard_grid
            and self.target == "sample"
            and not self.is_edited
            and not self.is_live
        )

    def forget_after(self, step: Step) -> Record:
        """Return the record with every field of a later step back at its default."""
        later: dict[str, Any] = {f.name: f.default for f in fields(self) if f.metadata["step"] > step}
        return replace(self, **later)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Record:
        """Read a stored record; fields of an older version, or of another type, take their default."""
        found: dict[str, Any] = {}
        for f in fields(cls):
            value = values.get(f.name)
            given = tuple(value) if isinstance(value, list) else value
            if _fits(given, f.default):
                found[f.name] = given
        return cls(**found)


def _fits(value: Any, default: Any) -> bool:
    """Whether a stored value can stand in place of a default: a record may come from a stranger's file."""
    if isinstance(default, tuple):
        kinds = {bool: (bool,), str: (str,)}.get(type(default[0]), (int, float))
        return isinstance(value, tuple) and all(type(item) in kinds for item in value) and len(value) > 0
    if default is None:
        return type(value) in (int, float)
    return type(value) is type(default)


# Files of the session's folder that belong to a step's result; forgetting the step deletes them.
FILES: dict[Step, tuple[str, ...]] = {
    Step.TEACHER: ("teacher.onnx", "outline.json", AS_READ, "upload"),
    Step.CANDIDATES: ("models", "files.json"),
    Step.TARGET: (
        "images",
        "checks.json",
        "preview.json",
        "preview.npy",
        "store",
    ),  # the store is keyed by content: another grid reuses what it holds
    Step.LABELS: ("labels.jsonl",),
    Step.RUN: ("predictions.npz", "weighed.npz", "carried.npz"),
    Step.EXPORT: ("export", "bundle.zip"),
}
JOBS: dict[Step, tuple[str, ...]] = {
    Step.TEACHER: ("import",),
    Step.CANDIDATES: ("files",),
    Step.TARGET: ("check", "preview"),
    Step.RUN: ("predict", "weigh", "carry"),
    Step.EXPORT: ("export",),
}
