"""A candidate made with calibration images: its recipe, its file, and what has to be said about it.

Knows the result only. How it was made is the business of the factories.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.family.kinds import Tailored


@dataclass(frozen=True, eq=False)
class TailoredModel:
    """The bytes that are judged and that ship, with `weight_bytes`: what its weights take at their true
    width.

    `facts` is ready for JSON and goes into the certificate: ranges or bits per layer, and the hashes of the
    calibration images.
    """

    recipe: Tailored
    content: bytes
    weight_bytes: float
    facts: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
