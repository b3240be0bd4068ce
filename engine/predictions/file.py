"""The predictions file or folder that anyone can write, from any framework or quantizer, checked on the way
in.

Knows the file contract and its checks. Knows nothing of models, rules or how the numbers were made.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.files.npz import MAX_UNPACKED_BYTES, read_npz, write_npz
from engine.files.space import room_for
from engine.predictions.deployed import check_allocation, check_times
from engine.predictions.folder import is_text, read_folder, write_folder
from engine.predictions.probabilities import check_probabilities
from engine.samples import sample_predictions
from engine.target.class_shares import checked_shares
from engine.types import UNLABELED, Floats, Ints, Predictions, UserError

MAX_CANDIDATES = 20_000  # the paper has 72; with ten times more, scoring takes minutes and says nothing new
PROBABILITIES = ("teacher", "candidates", "teacher_test", "candidates_test")
_KNOWN = (
    "teacher",
    "candidates",
    "labels",
    "names",
    "cost",
    "calibration",
    "teacher_test",
    "candidates_test",
    "labels_test",
    "class_names",
    "files",
    "missing",
    "missing_reasons",
    "bytes",
    "file_sha256",
    "reference",
    "latency",
    "latency_spread",
    "latency_unpacked",
    "allocation",
    "class_shares",
    "teacher_sha256",
)


def load_predictions(path: str | Path, *, max_bytes: int = MAX_UNPACKED_BYTES) -> Predictions:
    """Read and check a predictions file of at most `max_bytes` unpacked, or a folder of shards; uncompressed
    arrays are memory-mapped, not read.

    Raises UserError, in one line, for anything that is missing, misshapen, non-finite or out of range.
    """
    path = Path(path)
    if not path.exists():
        raise UserError(f"{path} is not a file. Give the path of an .npz file or of a predictions folder.")
    if path.is_dir():
        arrays = read_folder(path, wanted=_KNOWN)
    else:
        arrays = read_npz(path, wanted=_KNOWN, max_bytes=max_bytes)
    absent = next((name for name in ("teacher", "candidates") if name not in arrays), None)
    if absent:
        raise UserError(
            f"{path.name} has no array {absent!r}. Save teacher (N,K) and candidates (M,N,K) probabilities"
            " with numpy.savez."
        )
    try:
        return make_predictions(**arrays)
    except UserError as error:
        raise error.about(path.name) from None


def load_sample_predictions(name: str) -> Predictions:
    """Load the ready-made predictions of a sample's candidates: pool with all labels, and the test part.

    Raises UserError for an unknown name.
    """
    return load_predictions(sample_predictions(name))


def make_predictions(
    teacher: NDArray[Any],
    candidates: NDArray[Any],
    **optional: Any,
) -> Predictions:
    """Check arrays against the contract and make them Predictions.

    teacher (N, K) and candidates (M, N, K) are probabilities. Optional, by keyword: labels (N,), names (M,),
    cost (M,), calibration (int), teacher_test (T, K), candidates_test (M, T, K), labels_test (T,),
    class_names (K,), files (N,), missing (any) with missing_reasons, bytes (M,), file_sha256 (M,), reference,
    latency, latency_spread and latency_unpacked (M,) with nan where not measured, allocation (JSON text),
    class_shares (K,), teacher_sha256 (the teacher's fingerprint).
    """
    unknown = sorted(set(optional) - set(_KNOWN))
    if unknown:
        raise UserError(
            f"unknown array {unknown[0]!r}; the contract knows {', '.join(_KNOWN)}. Rename or remove it."
        )
    _check_shapes(teacher, candidates)
    n_candidates, n_images, n_classes = candidates.shape
    teacher = check_probabilities("teacher", teacher)
    candidates = check_probabilities("candidates", candidates)
    test = _check_test(optional, n_candidates, n_classes)
    return Predictions(
        teacher=teacher,
        candidates=candidates,
        labels=_check_labels("labels", optional.get("labels"), n_images, n_classes),
        names=_check_names(optional.get("names"), n_candidates),
        calibration=_check_calibration(optional.get("calibration"), n_images),
        cost=_check_sizes("cost", optional.get("cost"), n_candidates),
        bytes=_check_sizes("bytes", optional.get("bytes"), n_candidates),
        file_sha256=_strings("file_sha256", optional.get("file_sha256"), n_candidates),
        reference=_check_reference(optional.get("reference")),
        latency=check_times("latency", optional.get("latency"), n_candidates),
        latency_spread=check_times("latency_spread", optional.get("latency_spread"), n_candidates),
        latency_unpacked=check_times("latency_unpacked", optional.get("latency_unpacked"), n_candidates),
        allocation=check_allocation(optional.get("allocation")),
        class_shares=_check_shares(optional.get("class_shares"), n_classes),
        teacher_sha256=_check_fingerprint(optional.get("teacher_sha256")),
        class_names=_distinct("class_names", _strings("class_names", optional.get("class_names"), n_classes)),
        files=_strings("files", optional.get("files"), n_images),
        missing=_listed(optional.get("missing")),
        missing_reasons=_check_reasons(optional),
        **test,
    )


def save_predictions(
    predictions: Predictions, path: str | Path, *, compressed: bool = False, dtype: str | None = None
) -> None:
    """Write a predictions file in one step, or a folder of shards if `path` is not an .npz name.

    A reader sees the old file or the whole new one, never half of it. Probabilities are stored as `dtype`
    (float16, float32), or as they are. Nothing larger than a block of rows is held. Raises UserError if the
    disk is full.
    """
    arrays: dict[str, Any] = {}
    for name in _KNOWN:
        value = getattr(predictions, name)
        if value is not None and not (name in ("missing", "missing_reasons") and not value):
            arrays[name] = value if name in PROBABILITIES else np.asarray(value)
    stored = None if dtype is None else np.dtype(dtype)
    with room_for(path, sum(_stored_bytes(name, array, stored) for name, array in arrays.items())):
        if Path(path).suffix == ".npz":
            dtypes = {} if stored is None else dict.fromkeys(PROBABILITIES, stored)
            write_npz(path, arrays, compressed=compressed, dtypes=dtypes)
        else:
            write_folder(Path(path), arrays, stored)


def _stored_bytes(name: str, array: Any, dtype: np.dtype[Any] | None) -> int:
    return int(array.size) * (array.dtype if dtype is None or name not in PROBABILITIES else dtype).itemsize


def _check_shapes(teacher: NDArray[Any], candidates: NDArray[Any]) -> None:
    if candidates.ndim != 3 or teacher.ndim != 2:
        raise UserError(
            f"teacher must be (N,K) and candidates (M,N,K), got {teacher.shape} and {candidates.shape}. Stack"
            " one (N,K) array per candidate."
        )
    n_candidates, n_images, n_classes = candidates.shape
    if teacher.shape != (n_images, n_classes):
        raise UserError(
            f"teacher is {teacher.shape} but candidates are {candidates.shape}: both need the same N rows and"
            " K classes. Run them on the same images."
        )
    if n_candidates < 1 or n_images < 1 or n_classes < 2:
        raise UserError(
            f"candidates are {candidates.shape}: at least 1 candidate, 1 row and 2 classes are needed."
        )
    if n_candidates > MAX_CANDIDATES:
        raise UserError(
            f"there are {n_candidates:,} candidates; a family has up to {MAX_CANDIDATES:,}.",
            "Give those that could be deployed.",
        )


def _check_labels(name: str, labels: Any, n_rows: int, n_classes: int) -> Ints:
    if labels is None:
        return np.full(n_rows, UNLABELED, dtype=np.int64)
    array = np.asarray(labels)
    if array.shape != (n_rows,) or not np.issubdtype(array.dtype, np.integer):
        raise UserError(
            f"{name} must be {n_rows} integers (-1 = unlabeled), got shape {array.shape} of {array.dtype}."
            " Give one class index per row."
        )
    bad = (array < UNLABELED) | (array >= n_classes)
    if bad.any():
        row = int(np.argmax(bad))
        raise UserError(
            f"{name} has {int(array[row])} at row {row}; allowed are 0..{n_classes - 1}, or -1 for unlabeled."
            " Correct that label."
        )
    return array.astype(np.int64)


def _check_names(names: Any, n_candidates: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"candidate-{index}" for index in range(n_candidates))
    given = _distinct("names", _strings("names", names, n_candidates))
    assert given is not None
    return given


def _distinct(name: str, values: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if values is not None and len(set(values)) != len(values):
        repeated = next(value for value, count in Counter(values).items() if count > 1)
        raise UserError(
            f"{name} has {repeated!r} more than once; each entry needs a name of its own. Rename the repeats."
        )
    return values


def _strings(name: str, values: Any, length: int) -> tuple[str, ...] | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != (length,):
        raise UserError(f"{name} has shape {array.shape}; {length} entries are needed, one each.")
    texts = tuple(str(value) for value in array)
    half = next((text for text in texts if not is_text(text)), None)
    if half is not None:
        raise UserError(f"{name} has {half[:80]!r}, which is no text.", "Rename it.")
    return texts


def _listed(values: Any) -> tuple[str, ...]:
    return () if values is None else tuple(str(value) for value in np.atleast_1d(values))


def _check_reasons(optional: Mapping[str, Any]) -> tuple[str, ...]:
    missing, reasons = _listed(optional.get("missing")), _listed(optional.get("missing_reasons"))
    if reasons and len(reasons) != len(missing):
        raise UserError(
            f"missing_reasons has {len(reasons)} entries for {len(missing)} missing candidates. Give one"
            " each."
        )
    return reasons


def _check_shares(shares: Any, n_classes: int) -> Floats | None:
    return None if shares is None else checked_shares(shares, n_classes)


def _check_fingerprint(fingerprint: Any) -> str | None:
    if fingerprint is None:
        return None
    text = str(np.asarray(fingerprint))
    if not re.fullmatch("[0-9a-f]{64}", text):
        raise UserError(
            f"teacher_sha256 is {text[:80]!r}; it is the teacher's fingerprint, 64 hexadecimal digits. Copy"
            " it from the run that made the predictions, or leave it out."
        )
    return text


def _check_reference(reference: Any) -> str | None:
    if reference is None:
        return None
    text = str(np.asarray(reference))
    if text != "consensus" and not text.startswith("candidate:"):
        raise UserError(
            f"reference is {text!r}; it is `consensus` or `candidate:NAME`. Correct it, or leave it out where"
            " `teacher` is a float teacher."
        )
    return text


_SIZES = {
    "cost": ("relative weight memory", "relative weight memory, e.g. 0.14 for 14 % of float"),
    "bytes": ("the size of each file", "the size of each candidate's file in bytes"),
}


def _check_sizes(name: str, sizes: Any, n_candidates: int) -> Floats | None:
    if sizes is None:
        return None
    array = np.asarray(sizes)
    short, long = _SIZES[name]
    if array.shape != (n_candidates,) or not np.issubdtype(array.dtype, np.number):
        raise UserError(
            f"{name} must be {n_candidates} numbers, got shape {array.shape} of {array.dtype}. Give {short},"
            " one per candidate."
        )
    values = array.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise UserError(f"{name} has a negative or non-finite entry. Give {long}.")
    return values


def _check_calibration(calibration: Any, n_images: int) -> int:
    if calibration is None:
        return n_images // 2
    array = np.asarray(calibration)
    if (
        array.size != 1
        or not np.issubdtype(array.dtype, np.integer)
        or not 0 <= int(array.reshape(())) <= n_images
    ):
        raise UserError(
            f"calibration must be one whole number from 0 to N={n_images}: how many leading rows form the"
            " calibration split."
        )
    return int(array.reshape(()))


def _check_test(optional: Mapping[str, Any], n_candidates: int, n_classes: int) -> dict[str, Any]:
    parts = {name: optional.get(name) for name in ("teacher_test", "candidates_test", "labels_test")}
    if all(part is None for part in parts.values()):
        return parts
    absent = [name for name, part in parts.items() if part is None]
    if absent:
        raise UserError(
            f"the test part lacks {absent[0]}; give teacher_test, candidates_test and labels_test together,"
            " or none of them."
        )
    teacher, candidates = parts["teacher_test"], parts["candidates_test"]
    assert teacher is not None
    assert candidates is not None
    _check_shapes(teacher, candidates)
    if candidates.shape[0] != n_candidates or candidates.shape[2] != n_classes:
        raise UserError(
            f"candidates_test is {candidates.shape}; it needs the pool's M={n_candidates} candidates and"
            f" K={n_classes} classes."
        )
    parts["teacher_test"] = check_probabilities("teacher_test", teacher)
    parts["candidates_test"] = check_probabilities("candidates_test", candidates)
    labels = _check_labels("labels_test", parts["labels_test"], teacher.shape[0], n_classes)
    if (labels == UNLABELED).any():
        raise UserError(
            "labels_test has unlabeled rows (-1); a test part must be fully labeled. Remove those rows."
        )
    return {**parts, "labels_test": labels}
