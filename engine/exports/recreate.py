"""The command that makes an exported file again, byte for byte: whatever was stated or edited stands in it.

Knows the options that name a teacher. Paths become file names, which is all that a stranger can use.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath

from engine.exports.graph import OPSET_INT2
from engine.teacher.request import LoadRequest
from engine.types import Preprocessing, Teacher

CLASS_NAMES = "class_names.txt"  # beside the model, one name a line


def recreate_command(
    teacher: Teacher, slug: str, stated: LoadRequest, options: Mapping[str, str] | None = None
) -> str:
    """Return the command that exports `slug` of this very teacher again.

    `stated` is how the teacher was loaded; its preprocessing and class names are those it has now. `options`
    are further options of `export`, by name.
    """
    words = ["python", "-m", "engine", "export", "--teacher", _file_name(stated.spec)]
    if stated.arch is not None:
        words += ["--arch", stated.arch]
    if stated.classes is not None:
        words += ["--classes", str(stated.classes)]
    words += [f"--{name}={value}" for name, value in _preprocessing(teacher.preprocessing).items()]
    if class_names_text(teacher.class_names):
        words += ["--class-names", CLASS_NAMES]
    for name, value in (options or {}).items():
        words += [f"--{name}", value]
    return shlex.join([*words, "--candidate", slug, "--out", "DIR"])


def written_otherwise(max_opset: int, formats: Collection[str]) -> dict[str, str]:
    """Return the options of `export` that differ from what it does by itself."""
    options = {} if max_opset == OPSET_INT2 else {"max-opset": str(max_opset)}
    return options if set(formats) == {"onnx"} else {**options, "formats": ",".join(sorted(formats))}


def needs_images(command: str) -> bool:
    """Whether a command that makes a file again reads images that somebody must have."""
    return " --images " in command and " --images sample:" not in command


def class_names_text(names: Sequence[str]) -> str:
    """Return the class names as a text file that reads back as the same names; "" if no such file does."""
    text = "".join(f"{name}\n" for name in names)
    read = [line.strip() for line in text.splitlines() if line.strip()]
    return text if read == list(names) else ""


def _preprocessing(given: Preprocessing) -> dict[str, str]:
    """Return every part as its option; `=` keeps a negative mean from being read as an option itself."""
    return {
        "size": f"{given.height}x{given.width}",
        "channels": str(given.channels),
        "layout": given.layout,
        "resize": "none" if given.resize is None else str(given.resize),
        "interpolation": given.interpolation,
        "mean": ",".join(repr(float(value)) for value in given.mean),
        "std": ",".join(repr(float(value)) for value in given.std),
        "scale": repr(float(given.scale)),
        "order": given.order,
    }


def _file_name(spec: str) -> str:
    """Return the last part of a path; names such as timm:resnet18 stay whole."""
    kind, found, _ = spec.partition(":")
    return spec if found and kind in ("timm", "sample") else PurePath(spec.replace("\\", "/")).name
