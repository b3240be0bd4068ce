"""Runs the 72 candidates of each digit teacher over the handwritten target, and the ResNet's deploy family,
and writes the shipped predictions.

`python -m sample_models.families [NAME ...]`. Uses the project's own path from teacher to predictions,
nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from engine.deploy.running import FamilyOptions, predict_family
from engine.family.families import make_family, parse_family
from engine.predictions.file import save_predictions
from engine.predictions.runner import ProgressReport
from engine.predictions.store import default_store
from engine.samples import FOLDER, SAMPLES, SampleTarget, sample_names, sample_target
from engine.target import open_images
from engine.teacher.load import load_sample_teacher
from engine.types import Floats, Predictions, Teacher

POOL_BITS, TEST_BITS = 14, 9  # significant bits kept of each probability
DEPLOY = "digits-deploy"  # the sample whose candidates are another family of DEPLOY_TEACHER
DEPLOY_TEACHER = "digits-resnet"
DEPLOY_TEST_BITS = 7  # what ships stays within 10 MB


def predict_digits(
    teacher: Teacher,
    target: SampleTarget,
    store: Path,
    on_progress: Callable[[ProgressReport], None] | None = None,
    family: str = "paper",
) -> Predictions:
    """Run a whole family on the target's pool and test part; what the store already holds is not run
    again.
    """
    with tempfile.TemporaryDirectory() as folder:
        pool_file, test_file = Path(folder) / "pool.npy", Path(folder) / "test.npy"
        np.save(pool_file, target.pool_images)
        np.save(test_file, target.test_images)
        return predict_family(
            teacher,
            make_family(parse_family(family), teacher),
            open_images(pool_file),
            family=FamilyOptions(latency=family != "paper"),
            labels=target.pool_labels,
            test=(open_images(test_file), target.test_labels),
            store=store,
            on_progress=on_progress,
        )


def ship(predictions: Predictions, path: Path, *, files: bool = False, test_bits: int = TEST_BITS) -> None:
    """Write predictions small and compressed.

    Picks depend on the pool, so its probabilities keep 14 significant bits: in half precision a few near-ties
    of the coefficient search fell the other way. The test part only judges picks, and 9 bits move its mean
    losses by less than 0.05 %.
    """
    test, candidates_test = predictions.teacher_test, predictions.candidates_test
    small = replace(
        predictions,
        teacher=_rounded(predictions.teacher, POOL_BITS),
        candidates=_rounded(predictions.candidates, POOL_BITS),
        teacher_test=None if test is None else _rounded(test, test_bits).astype(np.float16),
        candidates_test=(
            None if candidates_test is None else _rounded(candidates_test, test_bits).astype(np.float16)
        ),
        files=predictions.files if files else None,
    )
    save_predictions(small, path, compressed=True)


def _rounded(probs: Floats, bits: int) -> Floats:
    """Keep `bits` significant bits. The predicted class stays the same: where rounding made a tie, it is
    raised by one step.
    """
    mantissa, exponent = np.frexp(np.asarray(probs, dtype=np.float64))
    rounded = np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)
    top = probs.argmax(axis=-1)
    tied = np.nonzero(rounded.argmax(axis=-1) != top)
    winner = (*tied, top[tied])
    rounded[winner] += np.ldexp(1.0, exponent[winner] - bits)
    result: Floats = rounded.astype(np.float32)
    return result


def main() -> None:
    """Write the predictions of the named families, or of all that ship a teacher."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="digit samples; all by default")
    parser.add_argument("--store", type=Path, default=default_store(), help="folder for resumable work")
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    for name in options.names or (*sample_names(with_teacher=True), DEPLOY):
        path = options.out / SAMPLES[name].predictions
        teacher = load_sample_teacher(DEPLOY_TEACHER if name == DEPLOY else name)
        made = predict_digits(teacher, sample_target(), options.store, family=SAMPLES[name].family)
        ship(made, path, test_bits=DEPLOY_TEST_BITS if name == DEPLOY else TEST_BITS)
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
