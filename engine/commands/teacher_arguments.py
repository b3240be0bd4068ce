"""The options that name a teacher and state what it does not say itself: the same for every command that
takes `--teacher`.

Knows argparse namespaces and turns them into one `LoadRequest`. Loads nothing unless asked.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from engine.commands.numbers import numbers
from engine.teacher.request import Channels, Interpolation, Layout, LoadRequest, Order, parse_size
from engine.types import Teacher, UserError

_EXAMPLES = {"mean": "0.485,0.456,0.406", "std": "0.229,0.224,0.225"}

_MAX_NAMES = 1 << 24  # bytes of a file of class names


def add_teacher_arguments(parser: argparse.ArgumentParser) -> None:
    """Add `--teacher` and everything that may be stated beside it."""
    parser.add_argument("--teacher", required=True, help="a model file, timm:NAME or sample:NAME")
    group = parser.add_argument_group("the teacher, where it does not say so itself")
    group.add_argument("--arch", help="timm architecture of a bare checkpoint")
    group.add_argument("--classes", type=int, help="its number of classes")
    group.add_argument("--class-names", help="text file with one class name per line")
    group.add_argument(
        "--size", help="input size, e.g. 224 or 192x256 (height x width), of a model that takes several"
    )
    group.add_argument("--channels", type=int, choices=get_args(Channels), help="1 is grey, 3 is colour")
    group.add_argument("--layout", choices=get_args(Layout), help="order of the input's axes")
    group.add_argument(
        "--resize", help="shorter side before the centre crop; `none` squashes the image to the input size"
    )
    group.add_argument("--interpolation", choices=get_args(Interpolation), help="how images are resized")
    group.add_argument(
        "--mean", help=f"one number per channel, e.g. {_EXAMPLES['mean']}, subtracted after --scale"
    )
    group.add_argument("--std", help="one number per channel")
    group.add_argument("--scale", type=float, help="factor on pixels 0..255 (default: the teacher's own)")
    group.add_argument("--order", choices=get_args(Order), help="channel order")


def load_request(args: argparse.Namespace) -> LoadRequest:
    """Return what the options ask for. Raises UserError for one that cannot be understood."""
    return LoadRequest(
        spec=args.teacher,
        arch=args.arch,
        classes=args.classes,
        size=parse_size(args.size) if args.size else None,
        channels=args.channels,
        layout=args.layout,
        mean=_per_channel(args, "mean"),
        std=_per_channel(args, "std"),
        scale=args.scale,
        resize=_resize(args.resize),
        interpolation=args.interpolation,
        order=args.order,
        class_names=read_class_names(args.class_names),
    )


def load_stated_teacher(args: argparse.Namespace) -> Teacher:
    """Load the teacher that the options describe: from the store if an earlier command imported the same
    file, else in a guarded process of its own.
    """
    from engine.predictions.store import default_store
    from engine.teacher.guarded import load_once

    given = getattr(args, "store", None)
    return load_once(load_request(args), store=Path(given).expanduser() if given else default_store())


def read_class_names(path: str | None) -> tuple[str, ...] | None:
    """Return the names in a text file, one a line, or None without a file."""
    if path is None:
        return None
    try:
        # a pipe or a device is no file, and would keep us waiting
        size = Path(path).stat().st_size if Path(path).is_file() else _MAX_NAMES + 1
        lines = Path(path).read_text(encoding="utf-8").splitlines() if size <= _MAX_NAMES else None
    except (OSError, UnicodeDecodeError):
        lines = None
    if lines is None:
        raise UserError(
            f"{path} cannot be read as text of at most 16 MB. Give a file with one class name per line."
        )
    return tuple(line.strip() for line in lines if line.strip())


def _resize(text: str | None) -> int | None:
    if not text:
        return None
    if text != "none" and not (text.isdecimal() and int(text) > 0):
        raise UserError(
            f"--resize is {text!r}; write a number of pixels, or none to squash images to the input size."
        )
    return 0 if text == "none" else int(text)


def _per_channel(args: argparse.Namespace, name: str) -> tuple[float, ...] | None:
    text = getattr(args, name)
    return numbers(text, f"--{name}", float, _EXAMPLES[name]) if text else None
