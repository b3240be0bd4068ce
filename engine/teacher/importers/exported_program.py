"""Import a torch exported program: the same way as a module, after checking that it was exported for
inference.

Knows torch.export. Opening the file safely is `pt2_file`'s work.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from engine.teacher.importers.pt2_file import read_program
from engine.teacher.importers.torch import import_module
from engine.types import Preprocessing, Teacher, UserError

_HOW = "torch.export.export(model.eval(), (images,), dynamic_shapes=({0: torch.export.Dim('batch')},))"


def import_program(
    path: Path,
    *,
    size: tuple[int, int] | None = None,
    preprocessing: Preprocessing | None = None,
    class_names: Sequence[str] | None = None,
    max_bytes: int,
) -> Teacher:
    """Import the `.pt2` file at `path`, a classifier from images (n, C, H, W) to scores (n, K).

    `size` (height, width) is needed where the program leaves it open.
    Raises UserError if the file is unsafe, its batch size is fixed, or it was exported in training mode.
    """
    program = read_program(path, max_bytes=max_bytes)
    _refuse_training_mode(program)
    channels, height, width = _image_shape(program)
    height, width = size or (height, width)
    if preprocessing is not None:
        channels, height, width = preprocessing.channels, preprocessing.height, preprocessing.width
    if channels is None or height is None or width is None:
        raise UserError(f"{path.name} leaves the image size open.", "State height and width.", option="size")
    return import_module(
        program.module(check_guards=False),
        name=path.stem,
        input_shape=(channels, height, width),
        preprocessing=preprocessing,
        class_names=class_names,
        source=path.name,
    )


def _image_shape(program: torch.export.ExportedProgram) -> tuple[int | None, int | None, int | None]:
    inputs = program.graph_signature.user_inputs
    if len(inputs) != 1 or len(program.graph_signature.user_outputs) != 1:
        raise UserError(
            f"the program has {len(inputs)} inputs and {len(program.graph_signature.user_outputs)} outputs; "
            "a teacher has one of each. Export a module that takes images and returns class scores."
        )
    value = next(node.meta["val"] for node in program.graph.nodes if node.name == inputs[0])
    if not isinstance(value, torch.Tensor) or value.ndim != 4:
        raise UserError(
            "the program does not take one batch of images (batch, channels, height, width). Export one that"
            " does."
        )
    sizes: list[Any] = list(value.shape)  # an open size is a symbol, whatever the annotation says
    batch, channels, height, width = (size if isinstance(size, int) else None for size in sizes)
    if batch is not None:
        raise UserError(
            f"the program was exported for batches of exactly {batch}. Export it for any batch size: {_HOW}."
        )
    return channels, height, width


def _refuse_training_mode(program: torch.export.ExportedProgram) -> None:
    for node in program.graph.nodes:
        drops = node.target == torch.ops.aten.dropout.default and node.args[2]
        # A BatchNorm without running statistics uses the batch's own in both modes; nothing to say about that
        # one.
        normalises = (
            node.target == torch.ops.aten.batch_norm.default and node.args[5] and node.args[3] is not None
        )
        if drops or normalises:
            raise UserError(
                f"the program was exported in training mode ({node.name}). Export it for inference: {_HOW}."
            )
