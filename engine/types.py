"""The nouns of the engine: teacher, recipe, predictions, choice, and the error a user can act on.

Knows shapes and invariants. Knows nothing of files, frameworks, formulas or Streamlit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

NOT_STATED = "pixels are scaled to 0..1 and not normalised"  # a note on a model that says nothing else
MAX_SIDE = 4096  # pixels; a larger input is a mistyped one, and its pool would fill the disk

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
Bools = NDArray[np.bool_]
Progress = Callable[[int, int], None]  # on_progress(done, total)

UNLABELED = -1
FLOOR = 1e-8  # lower clip of every probability before a logarithm, as the paper; rows are not renormalised


class UserError(Exception):
    """The input is at fault: what we got and need (`problem`), what to do (`remedy`), and which option.

    `option` names what the remedy is about, or several of them: the command line calls `store` "--store", the
    app calls it by its field. So a message of the engine never spells an option out.

    >>> error = UserError("the disk is full.", "Give another folder.", option="store")
    >>> str(error)
    'the disk is full. Give another folder (--store).'
    >>> error.said({"store": "the field “Folder”"})
    'the disk is full. Give another folder (the field “Folder”).'
    """

    def __init__(self, problem: str, remedy: str = "", option: str | tuple[str, ...] | None = None) -> None:
        super().__init__(problem, remedy, option)  # all of them, so that it survives pickling
        self.problem, self.remedy = problem, remedy
        self.options = (option,) if isinstance(option, str) else tuple(option or ())

    def said(self, names: Mapping[str, str]) -> str:
        """The whole message in one line, each option called as in `names`, or not at all if it is not
        there.
        """
        text = f"{self.problem} {self.remedy}".strip()
        known = [names[option] for option in self.options if option in names]
        if not known:
            return text
        stop = "." if text.endswith(".") else ""
        return f"{text.removesuffix('.')} ({' and '.join(known)}){stop}"

    def about(self, subject: str) -> UserError:
        """The same error with the thing it is about said first, e.g. a file's name."""
        return UserError(f"{subject}: {self.problem}", self.remedy, self.options)

    def __str__(self) -> str:
        return self.said({option: f"--{option.replace('_', '-')}" for option in self.options})


Granularity = Literal["tensor", "channel", "lastaxis"]
GRANULARITIES: tuple[Granularity, ...] = ("tensor", "channel", "lastaxis")


@dataclass(frozen=True, order=True)
class Recipe:
    """How one candidate is made from the teacher's weights; no data is involved.

    `lastaxis` reproduces the paper's Keras code: one scale per index of the last axis, which for a
    depthwise kernel (h, w, in, 1) is a single scale. `channel` means true output channels.
    """

    bits: int
    percentile: float
    granularity: Granularity
    float_ends: bool

    def __post_init__(self) -> None:
        if not 2 <= self.bits <= 8:
            raise UserError(f"bits must be 2 to 8, got {self.bits}. Choose a bit width in that range.")
        if not 50.0 <= self.percentile <= 100.0:
            raise UserError(
                f"clip percentile must be 50 to 100, got {self.percentile:g}. Use e.g. 99.5, or 100 for no"
                " clipping."
            )
        if self.granularity not in GRANULARITIES:
            raise UserError(
                f"granularity must be one of {', '.join(GRANULARITIES)}, got {self.granularity!r}."
            )

    @property
    def slug(self) -> str:
        """The candidate's stable name, e.g. `b4-channel-q99.5-ends`."""
        ends = "-ends" if self.float_ends else ""
        return f"b{self.bits}-{self.granularity}-q{self.percentile:g}{ends}"


@dataclass(frozen=True)
class Kernel:
    """One quantizable weight tensor: an initializer of the teacher's graph.

    `axes` are the axes of the initializer that index output channels: (0,) for an ONNX Conv,
    (1,) for a MatMul weight (in, out), (2, 3) for a Keras depthwise kernel (h, w, in, multiplier).
    `groups` matters for ConvTranspose only, whose weight is (in, out/groups, h, w): there the output
    channel is (group of axis 0, axis 1).
    """

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    op: str
    groups: int = 1

    @property
    def size(self) -> int:
        return math.prod(self.shape)


_CHOICES: dict[str, tuple[Any, ...]] = {
    "interpolation": ("nearest", "bilinear", "bicubic", "lanczos"),
    "channels": (1, 3),
    "order": ("RGB", "BGR"),
    "layout": ("NCHW", "NHWC"),
}


@dataclass(frozen=True)
class Preprocessing:
    """From decoded image to the teacher's input: resize, crop, then (pixel * scale - mean) / std.

    Pixels are 0..255. `resize` is the shorter side before the centre crop; None squashes the image to
    (height, width) without keeping its aspect ratio.
    """

    height: int
    width: int
    resize: int | None = None
    interpolation: Literal["nearest", "bilinear", "bicubic", "lanczos"] = "bilinear"
    channels: Literal[1, 3] = 3
    order: Literal["RGB", "BGR"] = "RGB"
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0, 0.0, 0.0)
    std: tuple[float, ...] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                known = ", ".join(map(str, allowed))
                raise UserError(f"{name} is {str(getattr(self, name))[:40]!r}; it must be one of {known}.")
        if min(self.height, self.width) < 1 or max(self.height, self.width) > MAX_SIDE:
            raise UserError(
                f"input size is {self.height}x{self.width}; each side must be from 1 to {MAX_SIDE} pixels."
            )
        if self.resize is not None and self.resize < max(self.height, self.width):
            raise UserError(
                f"resize {self.resize} is smaller than the crop {self.height}x{self.width}. Resize to at"
                " least the crop, or leave it empty."
            )
        if len(self.mean) != self.channels or len(self.std) != self.channels:
            raise UserError(
                f"mean and std need one number per channel ({self.channels}), got {len(self.mean)} and"
                f" {len(self.std)}."
            )
        if not all(0 < value < math.inf for value in self.std):
            raise UserError(
                f"std is {list(self.std)}; pixels are divided by it. Give numbers above 0, e.g. 1 to leave a"
                " channel unscaled."
            )
        if not all(map(math.isfinite, self.mean)) or not 0 < self.scale < math.inf:
            raise UserError(
                f"mean is {list(self.mean)} and scale {self.scale:g}; means must be finite and the scale"
                " above 0, e.g. 0.0039."
            )

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Preprocessing:
        fields = json.loads(text)
        for name in ("height", "width", "resize"):
            if not isinstance(fields.get(name), int | None) or isinstance(fields.get(name), bool):
                raise TypeError(f"{name} must be a whole number")
        return cls(**{**fields, "mean": tuple(fields["mean"]), "std": tuple(fields["std"])})


@dataclass(frozen=True, eq=False, kw_only=True)
class TeacherFacts:
    """What is known of a teacher without its weights: enough to show, cost and recognise it, not to run
    it.
    """

    name: str
    source: str  # the spec it was loaded from, e.g. "timm:resnet18" or "keras"
    kernels: tuple[Kernel, ...]
    preprocessing: Preprocessing
    class_names: tuple[str, ...]
    output: Literal["logits", "probabilities"]
    float_bytes: int  # all initializers of the graph at their stored width
    notes: tuple[str, ...] = ()
    model_sha256: str = (
        ""  # of the graph with its weights, the kernels and the kind of output; "" if not known
    )

    @property
    def n_classes(self) -> int:
        return len(self.class_names)

    @property
    def fingerprint(self) -> str:
        """Sha256 over everything that decides a prediction: the model and its preprocessing; "" if not known.

        Names, of the model and of its classes, decide none.
        """
        if not self.model_sha256:
            return ""
        return hashlib.sha256(f"{self.model_sha256} {self.preprocessing.to_json()}".encode()).hexdigest()


@dataclass(frozen=True, eq=False, kw_only=True)
class Teacher(TeacherFacts):
    """A trained classifier in the one internal form: an ONNX graph with named, unfolded kernels.

    The graph has one input (a batch of preprocessed images, dynamic batch size) and one output
    (batch, n_classes). `weights` maps each kernel's initializer name to its float32 array, in graph order.
    """

    graph: bytes
    weights: Mapping[str, Floats]

    def __post_init__(self) -> None:
        if self.graph:  # a worker gets the graph apart from the teacher, whose hash comes along
            digest = hashlib.sha256(self.graph)
            digest.update(self.output.encode())
            for kernel in self.kernels:
                digest.update(repr(kernel).encode())
            object.__setattr__(self, "model_sha256", digest.hexdigest())


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a teacher and its candidates predict on the target pool. Checked by `engine.predictions.file`.

    teacher (N, K) and candidates (M, N, K) are probabilities; labels (N,) int64 with -1 = unlabeled;
    cost (M,) is weight memory relative to the float teacher, bytes (M,) the size of the file that ships. The
    first `calibration` rows are the calibration split. The `_test` parts exist for studies and never enter a
    decision.
    """

    teacher: Floats
    candidates: Floats
    labels: Ints
    names: tuple[str, ...]
    calibration: int
    cost: Floats | None = None
    teacher_test: Floats | None = None
    candidates_test: Floats | None = None
    labels_test: Ints | None = None
    class_names: tuple[str, ...] | None = None
    files: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()  # candidates of the family that were not run
    missing_reasons: tuple[str, ...] = ()  # why, one for each of `missing`; empty where nobody said
    bytes: Floats | None = None
    file_sha256: tuple[str, ...] | None = None  # (M,) of candidates that are files, "" for others
    # what stands in for a float teacher: `consensus` of the candidates, or `candidate:NAME`; None: nothing
    # does
    reference: str | None = None
    # (M,) time per image relative to the float teacher on the processor that ran it, nan where not measured:
    # as the file ships, half the quartile distance, and with packed weights made floats at load
    latency: Floats | None = None
    latency_spread: Floats | None = None
    latency_unpacked: Floats | None = None
    allocation: str | None = None  # JSON: bits per layer of each mixed candidate
    # (K,) how frequent the classes are in the target, as somebody states it; None: not known
    class_shares: Floats | None = None
    # `Teacher.fingerprint` of the teacher they were made with; None: not said
    teacher_sha256: str | None = None

    @property
    def n_candidates(self) -> int:
        return int(self.candidates.shape[0])

    @property
    def n_images(self) -> int:
        return int(self.candidates.shape[1])

    @property
    def n_classes(self) -> int:
        return int(self.candidates.shape[2])

    @property
    def has_test(self) -> bool:
        return self.labels_test is not None


@dataclass(frozen=True, eq=False)
class LabeledSample:
    """S: pool rows with their observed labels, in the order they were drawn (folds are contiguous in it)."""

    rows: Ints
    labels: Ints

    @property
    def n(self) -> int:
        return len(self.rows)


# How the labels were made: checked by an expert, with normal care, or by a crowd or a program.
LabelTrust = Literal["checked", "normal", "crowd"]
LABEL_TRUSTS: tuple[LabelTrust, ...] = ("checked", "normal", "crowd")

Better = Literal["higher", "lower"]


@dataclass(frozen=True, eq=False)
class Estimate:
    """One label-free rule's verdict: a score per candidate (nan = not admissible) and its pick."""

    rule: str
    scores: Floats
    better: Better
    pick: int
    ties: int  # how many candidates share the best score, the pick included


@dataclass(frozen=True, eq=False)
class Choice:
    """A pick and everything a person needs to understand it.

    Anchored rules: scores = anchor + coefficient * supervised. Scores are nan where a candidate is not
    admissible; `better` says which direction is good (every supervised rule minimises).
    """

    method: str
    index: int
    name: str
    scores: Floats
    ties: int  # how many candidates share the best score, the pick included
    runner_up: int | None
    margin: float | None  # how much worse the runner-up scores, in the score's unit
    better: Better = "lower"
    n_labels: int = 0
    anchor: Floats | None = None
    supervised: Floats | None = None
    coefficient: float | None = None
    grid: Floats | None = None
    cv_losses: Floats | None = None
    warnings: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)  # rule-specific evidence, JSON-ready
