"""Exported files against the float file: bytes on disk, resident memory and latency of both ways to load
them.
"""

from collections.abc import Iterator

from engine.exports.graph import float_model, pack_model
from engine.exports.profile import measure_profiles
from engine.family.cost import weight_bytes
from engine.family.recipes import parse_slug
from engine.teacher.importers.timm import build
from engine.teacher.importers.torch import import_module
from engine.types import Teacher

# Recipes that quantize everything, so that neither the stem nor the head is left out of the ratio.
RECIPES = (
    "b2-channel-q100",
    "b2-tensor-q99",
    "b3-channel-q100",
    "b4-channel-q99.5",
    "b4-tensor-q99",
    "b8-channel-q100",
)


def _teacher(quick: bool) -> Teacher:
    name = "resnet18" if quick else "resnet50"
    return import_module(build(name, 1000), name=name, input_shape=(3, 224, 224))


def main(quick: bool = False) -> Iterator[str]:
    teacher = _teacher(quick)
    plain = float_model(teacher)
    yield (
        f"{teacher.name}, 1000 classes, random weights; float file {len(plain) / 1e6:.1f} MB. Ratios to the"
        " float model, lower is better."
    )
    yield ""
    yield (
        "| candidate | file | of float | theory | resident packed | resident folded | latency packed |"
        " latency folded |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for slug in RECIPES[:2] if quick else RECIPES:
        recipe = parse_slug(slug)
        content = pack_model(teacher, recipe).content
        base, packed, folded = measure_profiles(plain, content, teacher.preprocessing)
        memory = [f"{item.resident_bytes / base.resident_bytes:.0%}" for item in (packed, folded)]
        latency = [f"{item.latency_ms / base.latency_ms:.2f}" for item in (packed, folded)]
        theory = weight_bytes(teacher, recipe) / teacher.float_bytes
        cells = [
            slug,
            f"{len(content) / 1e6:.2f} MB",
            f"{len(content) / len(plain):.2%}",
            f"{theory:.2%}",
            *memory,
            *latency,
        ]
        yield f"| {' | '.join(cells)} |"
    yield ""
    yield (
        f"Float model: {base.resident_bytes / 1e6:.0f} MB resident, {base.latency_ms:.1f} ms an image, one"
        " thread."
    )
