"""What a certificate says, as data: checks, sizes, load profiles, hashes, evidence; to JSON and back.

Knows its own fields and the seal over them. Knows nothing of ONNX, runtimes or files.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from engine.exports.certificate_fields import build, parse
from engine.types import Floats, UserError

FORMAT = "anchorpoint certificate 1"
SHIPPED_IMAGES = 16  # of the user's, that a file is compared on: enough to show a difference, seconds to run


@dataclass(frozen=True)
class Check:
    """One thing that was tested: its value, the limit it must keep, and what that means in a sentence."""

    name: str
    passed: bool
    value: float | None
    limit: float | None
    sentence: str


@dataclass(frozen=True)
class Sizes:
    """Bytes on disk; what a file has beyond its weights is the graph. `needed` is what integer containers,
    scales and float parts require; `theory` counts codes at their true width.
    """

    file: int
    float_file: int
    weights: int
    float_weights: int
    needed: int
    theory: float
    by_type: Mapping[str, int]  # ONNX data type -> bytes of the weights of that type


@dataclass(frozen=True)
class Profile:
    """One way to load a file, measured alone in a fresh process with one thread. Medians; resident memory is
    the growth over an empty runtime.
    """

    name: str
    load_ms: float
    latency_ms: float  # one image
    resident_bytes: int
    sentence: str


@dataclass(frozen=True)
class Probe:
    """Inputs whose expected probabilities are kept, so that anyone can repeat the comparison.

    `probs` holds (n, K) little-endian float32 in base64. Seeded noise is described by `seed`; the user's own
    images by the sha256 of each prepared image, so that the images themselves need not travel.
    """

    probs: str
    n_images: int
    n_classes: int
    limit: float  # how far from `probs` a faithful file may be
    seed: int | None = None
    digests: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, probs: Floats, limit: float, *, seed: int | None = None, digests: tuple[str, ...] = ()
    ) -> Probe:
        """Keep probabilities (n, K)."""
        content = base64.b64encode(np.asarray(probs, "<f4").tobytes()).decode()
        return cls(content, probs.shape[0], probs.shape[1], limit, seed, digests)

    def array(self) -> Floats:
        """Return the probabilities, (n, K); raise UserError if they are damaged."""
        try:
            return np.frombuffer(base64.b64decode(self.probs, validate=True), "<f4").reshape(
                self.n_images, self.n_classes
            )
        except ValueError as error:
            raise UserError(
                "certificate.json is damaged: its stored probabilities cannot be read. Copy the bundle again."
            ) from error


@dataclass(frozen=True)
class Certificate:
    """The evidence that a file is the model it is said to be. `files` maps each file of the bundle to its
    sha256.
    """

    recipe: str
    teacher: Mapping[str, Any]
    model: Mapping[str, Any]
    checks: tuple[Check, ...]
    sizes: Sizes
    profiles: tuple[Profile, ...]
    probes: tuple[Probe, ...]
    files: Mapping[str, str]
    evidence: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str
    notes: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """True if every check kept its limit."""
        return all(check.passed for check in self.checks)

    @property
    def sha256(self) -> str:
        """The hash of model.onnx."""
        return self.files["model.onnx"]

    @property
    def finding(self) -> str:
        """What the checks showed of the file, as the end of a sentence that claims no more than what was
        compared.
        """
        if not self.passed:
            return "did not pass: do not deploy it"
        n_images = self.model.get("n_images", "some")
        if self.model.get("judged") is True:
            return f"is the model that was judged: it repeats the stored predictions on {n_images} images"
        inputs = "images of seeded noise" if self.model.get("inputs") == "noise" else "images"
        return f"repeats the quantized model of its recipe on {n_images} {inputs}"

    def to_json(self) -> str:
        """Return the certificate as JSON text, the same text for the same content, with a seal that shows
        accidental edits.
        """
        content = plain({"format": FORMAT, "passed": self.passed, **asdict(self)})
        return (
            json.dumps({**content, "seal": _seal(content)}, indent=1, sort_keys=True, ensure_ascii=False)
            + "\n"
        )

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Read a certificate; raise UserError, naming the field, if it is damaged, edited, or not one of
        ours.
        """
        content = parse(text.encode() if isinstance(text, str) else text)
        stated = {name: content.pop(name, None) for name in ("seal", "format", "passed")}
        if stated["format"] != FORMAT:
            raise UserError(
                f"the certificate's field format does not say {FORMAT!r}.",
                "Export the model again with this version.",
            )
        certificate = build(cls, content)
        seal = _seal({"format": FORMAT, "passed": stated["passed"], **content})
        if stated["seal"] != seal or stated["passed"] is not certificate.passed:
            raise UserError(
                "certificate.json was edited after it was written: its seal does not match.",
                "Export the model again.",
            )
        return certificate


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: plain lists, dicts and numbers; nan and infinity become null."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    raise ValueError(f"a certificate cannot hold a {type(value).__name__}")


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
