"""What is asked of `load_teacher`: a model by name, and what a person states about it. One form for the
command line, Python and the app.

Knows the fields and how they change a preprocessing. Knows nothing of files or frameworks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

from engine.types import Preprocessing, UserError

MAX_BYTES = 2 * 1000**3  # an ONNX graph is one protobuf message, which ends at 2 GB

Size = tuple[int, int]
Channels = Literal[1, 3]
Layout = Literal["NCHW", "NHWC"]
Interpolation = Literal["nearest", "bilinear", "bicubic", "lanczos"]
Order = Literal["RGB", "BGR"]


def parse_size(text: str) -> Size:
    """Return height and width from `224` or `192x256`. Raises UserError for anything else.

    >>> parse_size("48x192"), parse_size("96")
    ((48, 192), (96, 96))
    """
    sides = text.strip().lower().replace("×", "x").split("x")
    if not all(side.strip().isdecimal() and int(side) > 0 for side in sides) or len(sides) > 2:
        raise UserError(
            f"the input size is {text!r}.", "Write it like 224 or 192x256 (height x width).", option="size"
        )
    return int(sides[0]), int(sides[-1])


@dataclass(frozen=True)
class InputShape:
    """What is stated about a model's input where the model leaves it open; None where nothing is."""

    size: Size | None = None  # height, width
    channels: Channels | None = None
    layout: Layout | None = None


@dataclass(frozen=True)
class LoadRequest:
    """A model to load and everything stated about it; None means that the model itself is to say.

    `spec` is a path, `timm:NAME` or `sample:NAME`; `arch` and `classes` belong to bare weights. `size`
    (height, width) is the input size of a model that takes several. `preprocessing` replaces all of what the
    model says about its input; the single parts (`mean`, `resize`, ...) replace only themselves, and
    `resize=0` squashes images to the input size.

    >>> LoadRequest(spec="net.onnx", size=(48, 192)).preprocess(Preprocessing(32, 32)).width
    192
    """

    spec: str = ""
    arch: str | None = None
    classes: int | None = None
    size: Size | None = None
    channels: Channels | None = None
    layout: Layout | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    scale: float | None = None
    resize: int | None = None
    interpolation: Interpolation | None = None
    order: Order | None = None
    class_names: tuple[str, ...] | None = None
    preprocessing: Preprocessing | None = None
    max_bytes: int = MAX_BYTES

    @property
    def shape(self) -> InputShape:
        """The input's shape as far as it is stated, by its parts or as a whole preprocessing."""
        whole = self.preprocessing
        if whole is None:
            return InputShape(size=self.size, channels=self.channels, layout=self.layout)
        return InputShape(
            size=self.size or (whole.height, whole.width),
            channels=self.channels or whole.channels,
            layout=self.layout or whole.layout,
        )

    def preprocess(self, own: Preprocessing) -> Preprocessing:
        """Return the model's own preprocessing with what is stated in its place.

        Raises UserError if the parts do not fit each other.
        """
        parts = ("channels", "layout", "mean", "std", "scale", "interpolation", "order")
        stated: dict[str, Any] = {name: value for name in parts if (value := getattr(self, name)) is not None}
        if self.channels is not None and self.channels != own.channels:
            # numbers for other channels say nothing about these
            stated = {"mean": (0.0,) * self.channels, "std": (1.0,) * self.channels, **stated}
        if self.size is not None:
            stated |= {"height": self.size[0], "width": self.size[1]}
            if own.resize is not None and (own.height, own.width) != self.size:
                stated["resize"] = max(own.resize, *self.size)
        if self.resize is not None:
            stated["resize"] = self.resize or None
        return replace(own, **stated)

    def to_dict(self) -> dict[str, Any]:
        """Return what is stated, ready for JSON."""
        stated = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        if self.preprocessing is not None:
            stated["preprocessing"] = asdict(self.preprocessing)
        return stated

    @classmethod
    def from_dict(cls, stated: Mapping[str, Any]) -> LoadRequest:
        """Read back what `to_dict` returned, from JSON or not. Raises UserError for a field it does not
        know.
        """
        unknown = sorted(set(stated) - {f.name for f in fields(cls)})
        if unknown:
            raise UserError(f"a teacher cannot be loaded with {unknown[0]!r}. Leave it out.")
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in stated.items()
        }
        if isinstance(values.get("preprocessing"), Mapping):
            whole = values["preprocessing"]
            values["preprocessing"] = Preprocessing(
                **{**whole, "mean": tuple(whole["mean"]), "std": tuple(whole["std"])}
            )
        return cls(**values)
