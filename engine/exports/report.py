"""A certificate for reading: a self-contained HTML page, the bundle's README, and the script that runs the
model.

Knows layout and words. Every number comes from the certificate, and every text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from engine.exports.certificate import Certificate, Check, Sizes
from engine.exports.decision_page import decision_html
from engine.exports.evidence import brief_in
from engine.exports.layout import nowrap, page, table
from engine.exports.native import FORMATS
from engine.exports.recreate import CLASS_NAMES, needs_images
from engine.family.recipes import recipe_of

_SCRIPT = Path(__file__).with_name("bundle_predict.py")


def predict_script() -> str:
    """Return the text of the bundle's predict.py."""
    return _SCRIPT.read_text(encoding="utf-8")


def size(n: float) -> str:
    """Return a number of bytes in kB or MB, three significant digits."""
    value, unit = (n / 1e6, "MB") if n >= 999_500 else (n / 1e3, "kB")
    return f"{value:.0f} {unit}" if value >= 99.95 else f"{value:.3g} {unit}"


def size_words(certificate: Certificate) -> str:
    """Say what the recipe counts, what the file takes, and why the two differ."""
    sizes, width = certificate.sizes, certificate.model["container_bits"]
    recipe = recipe_of(certificate.recipe)
    stored, graph = size(sizes.weights - sizes.theory), size(sizes.file - sizes.weights)
    if recipe is None:
        reason = f"wider integers than its bits and zero points add {stored}, the graph {graph}"
    else:
        reason = f"codes of {recipe.bits} bits stored as INT{width} add {stored}, the graph {graph}"
    if (recipe is None and sizes.weights - sizes.theory < 1000) or (
        recipe is not None and width == recipe.bits
    ):
        reason = f"graph and zero points add {size(sizes.file - sizes.theory)}"
    return (
        f"The recipe counts {size(sizes.theory)}, {100 * sizes.theory / sizes.float_weights:.1f} % of the float"
        f" weights; the file takes {size(sizes.file)}, {100 * sizes.file / sizes.float_file:.1f} % of the float file:"
        f" {reason}."
    )


# --- certificate.html ---------------------------------------------------------------------


def certificate_html(certificate: Certificate) -> str:
    """Return the certificate as one HTML page that loads nothing else."""
    c = certificate
    failed = [check.name for check in c.checks if not check.passed]
    lead = (
        f"{len(c.checks)} of {len(c.checks)} checks passed." if c.passed else f"Failed: {', '.join(failed)}."
    )
    body = [
        (
            f"<h1>{'✓' if c.passed else '✗'} <span class={'ok' if c.passed else 'bad'}>This file"
            f" {escape(c.finding)}</span></h1>"
        ),
        (
            f"<p><strong>{escape(c.recipe)}</strong> of {escape(str(c.teacher['name']))}:"
            f" {size(c.sizes.file)} on disk, {100 * c.sizes.file / c.sizes.float_file:.1f} % of the float file."
            f" {escape(lead)}</p>"
        ),
        evidence_html(c.evidence, facts=speed_and_size(c)),
        "<h2>Size</h2>",
        _size_bars(c.sizes),
        f"<p>{escape(size_words(c))}</p>",
        checks_html(c.checks),
        _profiles(c),
        "<h2>Notes</h2>",
        "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in c.notes) + "</ul>",
        "<h2>Origin</h2>",
        table(("", ""), [[nowrap(key.replace("_", " ")), escape(str(value))] for key, value in _origin(c)]),
    ]
    return page(f"Certificate of {c.recipe}", "\n".join(body))


def _size_bars(sizes: Sizes) -> str:
    bars = (
        ("float file", sizes.float_file),
        ("this file", sizes.file),
        ("its weights", sizes.weights),
        ("theory: codes at their true width", sizes.theory),
    )
    largest = max(value for _, value in bars)
    rows = [
        [
            escape(name),
            f'<div class=bar style="width:{max(0.3, 100 * value / largest):.1f}%"></div>',
            nowrap(size(value)),
        ]
        for name, value in bars
    ]
    types = ", ".join(f"{name} {size(value)}" for name, value in sizes.by_type.items())
    return (
        table(("", "", "bytes"), rows).replace("<td><div", "<td class=room><div")
        + f"<p class=soft>Weights by data type: {escape(types)}.</p>"
    )


def checks_html(checks: Iterable[Check]) -> str:
    """Return the table of what was checked."""
    heads = ("", "check", "value", "limit", "in words")
    return "<h2>Checks</h2>" + table(heads, [_check_row(check) for check in checks])


def _check_row(check: Check) -> list[str]:
    mark = "<span class=ok>✓</span>" if check.passed else "<span class=bad>✗</span>"
    return [mark, escape(check.name), _number(check.value), _number(check.limit), escape(check.sentence)]


def _number(value: float | None) -> str:
    return nowrap("–" if value is None else f"{value:.3g}")


def _profiles(c: Certificate) -> str:
    if not c.profiles:
        return "<h2>Load profiles</h2><p class=soft>Not measured.</p>"
    rows = [
        [
            *map(nowrap, (p.name, f"{p.latency_ms:.3g} ms", size(p.resident_bytes), f"{p.load_ms:.3g} ms")),
            escape(p.sentence),
        ]
        for p in c.profiles
    ]
    heads = ("profile", "latency, one image", "resident memory", "load time", "")
    note = "<p class=soft>Each in a fresh process, one thread, on the machine that wrote this page.</p>"
    return "<h2>Load profiles (lower is better)</h2>" + table(heads, rows) + note


def evidence_html(evidence: Mapping[str, Any], *, facts: Sequence[str] = ()) -> str:
    """Return why this candidate, as sections of a page; `facts` are sentences on size and speed."""
    brief = brief_in(evidence)
    if brief is not None:
        return decision_html(brief, facts=facts)
    rows = [[escape(key.replace("_", " ")), escape(text)] for key, text in _spoken(evidence)]
    return "<h2>Why this candidate</h2>" + (
        table(("", ""), rows)
        if rows
        else "<p class=soft>No evidence was recorded: the candidate was named directly.</p>"
    )


def _spoken(evidence: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield what can be read of evidence that tells no decision; arrays stay in the JSON."""
    for key, value in evidence.items():
        if isinstance(value, str | int | float):
            yield key, str(value)
        elif isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            yield key, " ".join(value)


def speed_and_size(c: Certificate) -> tuple[str, ...]:
    """Say what the file takes and how long an image takes, each way it can be loaded."""
    disk = f"The file takes {size(c.sizes.file)}, {100 * c.sizes.file / c.sizes.float_file:.1f} % of the float file."
    times = ", ".join(f"{profile.latency_ms:.3g} ms ({profile.name})" for profile in c.profiles)
    return (disk, f"One image takes {times} on the machine that wrote this page.") if times else (disk,)


def _origin(c: Certificate) -> Iterable[tuple[str, Any]]:
    yield from ((f"teacher {key}", value) for key, value in c.teacher.items())
    yield from c.model.items()
    yield from ((f"{name} version", value) for name, value in c.versions.items())
    yield from ((f"sha256 of {name}", value) for name, value in c.files.items())
    yield "made by", c.command


# --- README.md ----------------------------------------------------------------------------


def bundle_readme(certificate: Certificate) -> str:
    """Return the README of a bundle: run it, check it, recreate it."""
    c = certificate
    files = {
        "model.onnx": "the model, plain ONNX with packed integer weights",
        "predict.py": "runs it on image files",
    }
    if CLASS_NAMES in c.files:
        files[CLASS_NAMES] = "the names of the classes, in the order of the outputs"
    files |= {item.file: item.sentence for item in FORMATS.values() if item.file in c.files}
    files |= {
        "certificate.html": "what was checked, for reading",
        "certificate.json": "the same, for programs",
    }
    listing = "\n".join(f"- `{name}`: {sentence}" for name, sentence in files.items())
    packed = _PACKED if FORMATS["packed"].file in c.files else ""
    return _README.format(
        recipe=c.recipe,
        teacher=_code(str(c.teacher["name"])),
        sizes=size_words(c),
        verdict=(
            f"Every check passed: the file {c.finding}."
            if c.passed
            else "NOT every check passed: read certificate.html before using it."
        ),
        files=listing,
        packed=packed,
        onnxruntime=c.versions["onnxruntime"],
        opset=c.model["opset"],
        command=_code(c.command),
        beside="the teacher's file" + (" and the images" if needs_images(c.command) else ""),
        sha256=c.sha256,
    )


def _code(text: str) -> str:
    """Text for a code span or block: on one line, without backquotes that would end it."""
    return " ".join(text.replace("`", "'").split())


_README = """# {recipe}

A quantized image classifier made from `{teacher}`. {verdict} {sizes}

## Run it

Needs Python 3.10 or newer and three packages (opset {opset}; tested with onnxruntime {onnxruntime}):

    pip install onnxruntime numpy pillow
    python predict.py photo.jpg

It prints file, class and probability. From Python:

    from predict import predict
    class_names, probabilities = predict(["photo.jpg"])

Weights stay packed in memory. Set `FAST = True` in predict.py to unpack them at load: faster, with the memory of the float model.

## Files

{files}
{packed}
## Check it

With Anchorpoint installed, `python -m engine verify .` compares every hash and runs the model again (exit code 2 if anything differs).
Hashes show accidents and simple tampering; they are no signature. sha256 of model.onnx: {sha256}

## Recreate it

In this folder, with {beside} beside it (named as here: the teacher's name is kept in the model), this
writes the same bytes of model.onnx:

    {command}
"""

_PACKED = """
### packed.safetensors

`engine.exports.native.load_packed` reads it. The metadata key `manifest` is JSON: for each kernel NAME its `shape`, `bits`, and the `axes` that
index output channels. `NAME.codes` holds two's complement codes of `bits` bits, lowest bits first, in C order of `shape`, without gaps;
`NAME.scales` one float32 per output channel, or a single one. weight = code * scale. All other tensors are plain float32.
"""
