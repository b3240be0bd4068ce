"""verify: is this bundle still the model its certificate describes? Hashes first, then the file is run again,
here and now.

Knows what a stranger's bundle may try. Needs neither the teacher nor the images that were used.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from engine.exports.bundle import Bundle, open_bundle, read_certificate
from engine.exports.certificate import Certificate, Check, Probe
from engine.exports.integer_parity import LARGEST_INTEGER_LIMIT, has_integer_activations, integer_checks
from engine.exports.parity import (
    LARGEST_LIMIT,
    LIMIT,
    Comparison,
    image_digests,
    run_file,
    runtime_checks,
)
from engine.exports.place import CERTIFICATE, SIGNATURE
from engine.exports.signature import check_signature
from engine.guard import patience_with, stage
from engine.teacher.agreement import random_images
from engine.teacher.graph import model_facts
from engine.teacher.graph_bounds import every_node, require_bounded
from engine.teacher.outside_data import every_tensor, is_outside
from engine.types import Preprocessing, UserError

MODEL = "model.onnx"
_MAX_PIXELS = 4096 * 4096
_AT_ONCE = 250  # images that any model answers in the seconds of a stage
_PACKED = 8  # times smaller than a float model, at most, for the same work
_MAX_PROBE_PIXELS = 64 * 1000**2  # of all noise images together; our own probes have 4 images


@dataclass(frozen=True)
class Wanted:
    """What a second look is to use beside the bundle: images by their path, how many, and a public key."""

    images: str | None = None
    n_images: int = 1000
    key: str | None = None


@dataclass(frozen=True)
class Verification:
    """What a second look found; `passed` only if every check did."""

    passed: bool
    checks: tuple[Check, ...]
    recipe: str | None = None


def verify(
    path: str | Path, images: NDArray[np.float32] | None = None, *, key: str | Path | None = None
) -> Verification:
    """Check a bundle (folder or zip) again: its files' hashes, that the model is plain ONNX, and its outputs.

    The model runs on the certificate's seeded noise at every optimization level. `images` (n, ...) are
    prepared images: those the certificate knows are compared with their judged probabilities; at least one
    must be known. `key` is a public key (PEM) that must have signed the certificate. Raises UserError if the
    path is no bundle (it has no certificate), or an archive that breaks a bound.
    """
    with open_bundle(path) as bundle:
        try:
            certificate = read_certificate(bundle)
        except UserError as error:
            return Verification(
                False, (Check(name="certificate", passed=False, value=None, limit=None, sentence=str(error)),)
            )
        signed = [] if key is None else [check_signature(bundle, key)]
        checks = [*signed, *(_checks(bundle, certificate, images) if all(c.passed for c in signed) else ())]
    return Verification(all(check.passed for check in checks), tuple(checks), certificate.recipe)


def bundle_preprocessing(path: str | Path) -> Preprocessing:
    """Return how the bundle's model wants its images prepared; raise UserError if it does not say."""
    with open_bundle(path) as bundle:
        if MODEL not in bundle.sizes:
            raise UserError(
                "there is no model.onnx here. Give the folder or zip that python -m engine export wrote."
            )
        return _preprocessing(_facts(bundle.read(MODEL)))


def _checks(bundle: Bundle, certificate: Certificate, images: NDArray[np.float32] | None) -> Iterator[Check]:
    failed = [check.name for check in certificate.checks if not check.passed]
    sentence = (
        f"It failed when it was written: {', '.join(failed)}."
        if failed
        else "It passed when it was written, and was not edited since."
    )
    yield Check(name="certificate", passed=not failed, value=float(len(failed)), limit=0.0, sentence=sentence)
    files = _check_files(bundle, certificate)
    yield files
    if not files.passed:
        return  # a file that is not the certified one is not run
    content = bundle.read(MODEL)
    plain = _check_plain(content)
    yield plain
    if plain.passed:
        yield from _check_outputs(content, certificate, images)


def _check_files(bundle: Bundle, certificate: Certificate) -> Check:
    """Compare every file with its hash; a zip may hold nothing else, a folder may."""
    wrong = sorted(
        name
        for name in certificate.files
        if name not in bundle.sizes or bundle.sha256(name) != certificate.files[name]
    )
    extra = (
        sorted(set(bundle.sizes) - set(certificate.files) - {CERTIFICATE, SIGNATURE}) if bundle.is_zip else []
    )
    if MODEL not in certificate.files:
        wrong.append(MODEL)
    if not wrong and not extra:
        return Check(
            name="files",
            passed=True,
            value=0.0,
            limit=0.0,
            sentence=f"All {len(certificate.files)} files have the sha256 the certificate states.",
        )
    reason = f"{wrong[0]} is missing or was changed" if wrong else f"{extra[0]} is not part of the bundle"
    return Check(
        name="files",
        passed=False,
        value=float(len(wrong) + len(extra)),
        limit=0.0,
        sentence=f"{reason}. Copy the bundle again, or export it again.",
    )


def _check_plain(content: bytes) -> Check:
    """A model that reaches for other files, or for operators outside the standard, is not self-contained."""
    try:
        model = onnx.ModelProto.FromString(content)
        require_bounded(model)
        outside = [tensor.name for tensor in every_tensor(model) if is_outside(tensor)]
        nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
        foreign = sorted({node.domain for node in every_node(nodes)} - {"", "ai.onnx"})
        if outside or foreign:
            reason = (
                f"weights in another file ({outside[0][:80]})"
                if outside
                else f"operators of {foreign[0][:80]}"
            )
            return Check(
                name="plain ONNX",
                passed=False,
                value=float(len(outside) + len(foreign)),
                limit=0.0,
                sentence=f"The model uses {reason}.",
            )
        onnx.checker.check_model(model, full_check=True)
    except UserError as error:
        return Check(name="plain ONNX", passed=False, value=None, limit=None, sentence=str(error))
    except (DecodeError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return Check(
            name="plain ONNX",
            passed=False,
            value=None,
            limit=None,
            sentence=f"The model is not valid ONNX: {str(error).strip().splitlines()[0][:200]}",
        )
    return Check(
        name="plain ONNX",
        passed=True,
        value=0.0,
        limit=0.0,
        sentence="The model is valid ONNX, in one file, with standard operators only.",
    )


def _check_outputs(
    content: bytes, certificate: Certificate, images: NDArray[np.float32] | None
) -> Iterator[Check]:
    facts = _facts(content)
    preprocessing = _preprocessing(facts)
    pixels = preprocessing.height * preprocessing.width
    noise = next((probe for probe in certificate.probes if probe.seed is not None), None)
    if (
        noise is None
        or not 1 <= noise.n_images <= _MAX_PROBE_PIXELS // pixels
        or noise.seed is None
        or noise.seed < 0
    ):
        sentence = "The certificate holds no predictions to compare with. Export the model again."
        yield Check(name="stored predictions", passed=False, value=None, limit=None, sentence=sentence)
        return
    inputs = random_images(noise.n_images, preprocessing, noise.seed)
    integer = has_integer_activations(content)
    limit = _limit(noise, LARGEST_INTEGER_LIMIT if integer else LARGEST_LIMIT)
    comparison = Comparison(inputs, noise.array(), facts.get("output", "logits"), limit)
    # All checks share one clock: each of them could take long on purpose.
    patience = patience_with(_PACKED * len(content))
    stage("running its model again", patience=patience, goes_on=True)
    yield from integer_checks(content, comparison) if integer else runtime_checks(content, comparison)
    if images is not None:
        stage("running its model on your images", patience=max(patience, len(images) / _AT_ONCE))
        yield _check_images(content, certificate, images, facts.get("output", "logits"))


def _check_images(
    content: bytes, certificate: Certificate, images: NDArray[np.float32], output: str
) -> Check:
    """Compare the images that the certificate knows by their digest, in whatever order they come."""
    known: dict[str, Any] = {}
    largest = LARGEST_INTEGER_LIMIT if has_integer_activations(content) else LARGEST_LIMIT
    limit = min((_limit(probe, largest) for probe in certificate.probes if probe.digests), default=LIMIT)
    for probe in certificate.probes:
        known.update(zip(probe.digests, probe.array(), strict=False))
    digests = image_digests(images)
    rows = [i for i, digest in enumerate(digests) if digest in known]
    if not rows:
        sentence = (
            f"None of the {len(images)} images is one the certificate was made with, so there is nothing to"
            " compare."
        )
        return Check(name="your images", passed=False, value=None, limit=limit, sentence=sentence)
    probs = run_file(content, np.ascontiguousarray(images[rows]), output)
    if any(known[digests[i]].shape != probs.shape[1:] for i in rows):
        return Check(
            name="your images",
            passed=False,
            value=None,
            limit=limit,
            sentence="The certificate was made with another number of classes.",
        )
    value = float(np.abs(probs - np.stack([known[digests[i]] for i in rows])).max())
    sentence = (
        f"{len(rows)} of the {len(images)} images are known to the certificate; probabilities differ by at"
        f" most {value:.1e}."
    )
    return Check(name="your images", passed=bool(value < limit), value=value, limit=limit, sentence=sentence)


def _limit(probe: Probe, largest: float) -> float:
    """The probe's own limit, within what any faithful file needs: a stranger's certificate does not widen it
    further.
    """
    return min(max(probe.limit, LIMIT), largest)


def _facts(content: bytes) -> dict[str, str]:
    try:
        return model_facts(onnx.ModelProto.FromString(content))
    except DecodeError as error:
        raise UserError("model.onnx is damaged, or not an ONNX file. Copy the bundle again.") from error


def _preprocessing(facts: dict[str, str]) -> Preprocessing:
    try:
        found = Preprocessing.from_json(facts["preprocessing"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UserError(
            "model.onnx does not say how its images are prepared. Export the model again."
        ) from error
    if found.height * found.width > _MAX_PIXELS:
        raise UserError(
            f"model.onnx asks for images of {found.height} x {found.width} pixels, beyond any classifier's."
            " It is not run."
        )
    return found
