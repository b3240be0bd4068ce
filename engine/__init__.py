"""Anchorpoint's engine: teacher -> family -> predictions -> scores -> choice -> export.

The names in `__all__` are the public Python interface (docs/api.md); each loads its room when it is first
asked for, so that importing this package stays light. Frameworks load only inside the function that needs
them.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# onnxruntime reports use to its maker unless this is set before it is first imported. We promise to work
# offline.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

from engine.types import Choice, LabeledSample, Predictions, Preprocessing, Recipe, Teacher, UserError

if TYPE_CHECKING:
    from engine.decide.choose import METHODS, admissible_under, choose
    from engine.exports.bundle import write_bundle
    from engine.exports.certified import ExportOrder
    from engine.exports.certified import export_certified as export
    from engine.exports.verification import verify
    from engine.family.recipes import custom_family, parse_slug, standard_family
    from engine.predictions.file import load_predictions, make_predictions, save_predictions
    from engine.predictions.gather import predict
    from engine.study.protocol.config import StudyConfig
    from engine.study.protocol.run import run_study
    from engine.study.report.page import write_report
    from engine.target.image_set import open_images
    from engine.target.labels import read_labels, sample_from_array
    from engine.teacher.load import load_teacher

__version__ = "0.3.0.dev0"
__all__ = [
    "METHODS",
    "Choice",
    "ExportOrder",
    "LabeledSample",
    "Predictions",
    "Preprocessing",
    "Recipe",
    "StudyConfig",
    "Teacher",
    "UserError",
    "__version__",
    "admissible_under",
    "choose",
    "custom_family",
    "export",
    "load_predictions",
    "load_teacher",
    "make_predictions",
    "open_images",
    "parse_slug",
    "predict",
    "read_labels",
    "run_study",
    "sample_from_array",
    "save_predictions",
    "standard_family",
    "verify",
    "write_bundle",
    "write_report",
]

# Public name -> where it lives, "module:name". The imports above say the same to a type checker; a test
# compares the two.
_HOMES = {
    "ExportOrder": "engine.exports.certified:ExportOrder",
    "METHODS": "engine.decide.choose:METHODS",
    "StudyConfig": "engine.study.protocol.config:StudyConfig",
    "admissible_under": "engine.decide.choose:admissible_under",
    "choose": "engine.decide.choose:choose",
    "custom_family": "engine.family.recipes:custom_family",
    "export": "engine.exports.certified:export_certified",
    "load_predictions": "engine.predictions.file:load_predictions",
    "load_teacher": "engine.teacher.load:load_teacher",
    "make_predictions": "engine.predictions.file:make_predictions",
    "open_images": "engine.target.image_set:open_images",
    "parse_slug": "engine.family.recipes:parse_slug",
    "predict": "engine.predictions.gather:predict",
    "read_labels": "engine.target.labels:read_labels",
    "run_study": "engine.study.protocol.run:run_study",
    "sample_from_array": "engine.target.labels:sample_from_array",
    "save_predictions": "engine.predictions.file:save_predictions",
    "standard_family": "engine.family.recipes:standard_family",
    "verify": "engine.exports.verification:verify",
    "write_bundle": "engine.exports.bundle:write_bundle",
    "write_report": "engine.study.report.page:write_report",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its room on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    module, _, attribute = _HOMES[name].partition(":")
    value = globals()[name] = getattr(importlib.import_module(module), attribute)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
