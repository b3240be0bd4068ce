"""A candidate that is a file: which bytes, in which runtime, what goes in and what comes out.

Knows the description of a model file. Opens and runs none.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from engine.types import Preprocessing

Runtime = Literal["onnxruntime", "litert"]
OutputKind = Literal["logits", "probabilities"]
RUNTIMES: dict[str, str] = {"onnxruntime": "onnxruntime", "litert": "ai-edge-litert"}  # runtime -> package

CONSENSUS = "consensus"


@dataclass(frozen=True)
class InputForm:
    """What the file takes: pixels prepared by `preprocessing`, as numbers of `dtype`.

    Integers stand for reals: code = round(value / scale) + zero_point, clipped to the type's range. `batch`
    is the number of images per call the file insists on, or whose answers do not depend on their neighbours;
    None leaves it to the runner.
    """

    name: str
    preprocessing: Preprocessing
    dtype: str = "float32"
    scale: float = 1.0
    zero_point: int = 0
    batch: int | None = None


@dataclass(frozen=True)
class OutputForm:
    """What the file returns: (batch, n_classes) logits or probabilities under `name`.

    Integers stand for reals: value = (code - zero_point) * scale.
    """

    name: str
    kind: OutputKind
    n_classes: int
    dtype: str = "float32"
    scale: float = 1.0
    zero_point: int = 0


@dataclass(frozen=True)
class ModelFile:
    """One file that is judged as it is: the bytes with this `sha256`, run in `runtime`.

    `format` says in words what was found inside, `notes` what was assumed about it. `source` is the path it
    had where it was found; for a model that went through an importer, `path` is the ONNX file made from it.
    `unpacked` makes packed weights floats when the file is opened: the same numbers, judged faster.
    """

    name: str
    path: Path
    sha256: str
    n_bytes: int
    runtime: Runtime
    input: InputForm
    output: OutputForm
    format: str = ""
    source: str = ""
    notes: tuple[str, ...] = ()
    unpacked: bool = False

    @property
    def slug(self) -> str:
        """The candidate's name, as a recipe's slug is."""
        return self.name

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "path": str(self.path)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> ModelFile:
        """Read what `to_json` wrote."""
        fields: dict[str, Any] = json.loads(text)
        taken = fields["input"]
        preprocessing = Preprocessing.from_json(json.dumps(taken["preprocessing"]))
        return cls(
            **{
                **fields,
                "path": Path(fields["path"]),
                "input": InputForm(**{**taken, "preprocessing": preprocessing}),
                "output": OutputForm(**fields["output"]),
                "notes": tuple(fields["notes"]),
            }
        )


@dataclass(frozen=True)
class Refusal:
    """A candidate that cannot be judged, and why: one sentence a person can act on."""

    name: str
    reason: str


@dataclass(frozen=True)
class StandIn:
    """What stands in for a float teacher that nobody has: one of the files, or the mean of all of them.

    `candidate` is the name of that file, None for the mean (the consensus).
    """

    class_names: tuple[str, ...]
    candidate: str | None = None

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def name(self) -> str:
        """What stands in, in words."""
        return "the consensus of the candidates" if self.candidate is None else self.candidate

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentence that says so."""
        return (f"There is no float teacher: {self.name} stands in for it.",)

    @property
    def reference(self) -> str:
        """How a predictions file names it: `consensus`, or `candidate:NAME`."""
        return CONSENSUS if self.candidate is None else f"candidate:{self.candidate}"


def stand_in_words(reference: str) -> str:
    """Say what stands in for a float teacher, from a predictions file's `reference`.

    >>> stand_in_words("consensus"), stand_in_words("candidate:v7")
    ('the consensus of the candidates', 'v7')
    """
    return StandIn((), None if reference == CONSENSUS else reference.removeprefix("candidate:")).name


def whole_words(reference: str | None) -> str:
    """Say what the memory of candidates is a share of, from a predictions file's `reference`.

    >>> whole_words(None), whole_words("consensus"), whole_words("candidate:v7")
    ('float', 'the largest file', 'the file v7')
    """
    if reference is None:
        return "float"
    return "the largest file" if reference == CONSENSUS else f"the file {stand_in_words(reference)}"
