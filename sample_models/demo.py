"""The whole job without a browser: `make demo` or `python -m sample_models.demo [NAME] [--labels N]`.

A sample teacher, its 72 candidates run live on handwritten digits, a few labels, five ways to choose, what
the held-out test part says of each, and the chosen model as a certified file. Calls the engine's public
functions; decides nothing itself.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from engine.decide.choose import choose, statistics_of
from engine.exports.place import check_folder
from engine.exports.writing import write
from engine.family.recipes import parse_slug
from engine.predictions.runner import ProgressReport
from engine.rules.sampling import draw_sample
from engine.samples import SAMPLES, sample_names, sample_target
from engine.target import normalise, prepare
from engine.teacher.load import load_sample_teacher
from engine.types import Choice, Predictions, Teacher, UserError
from sample_models.families import predict_digits
from sample_models.measure import Truth, truth_of

PROBES = 64  # pool images on which the exported file is compared with what was judged
WAYS = (
    ("auto", "recommended: the teacher recalibrated, then corrected by the labels"),
    ("ce-combo", "the paper's anchor: distance to the teacher plus loss on the labels"),
    ("val-ce", "direct validation: trust the labels alone"),
    ("distortion", "label-free: stay closest to the teacher"),
    ("avg-confidence", "label-free: take the most confident"),
)


def run_candidates(teacher: Teacher, store: Path) -> Predictions:
    """Run teacher and candidates on the target with a progress line."""
    started = time.monotonic()
    predictions = predict_digits(teacher, sample_target(), store, _show_progress)
    seconds = time.monotonic() - started
    n_images = predictions.n_images + len(
        predictions.labels_test if predictions.labels_test is not None else ()
    )
    _clear_line()
    print(f"   {predictions.n_candidates} candidates x {n_images} images in {seconds:.1f} s\n")
    return predictions


def choose_each_way(predictions: Predictions, n_labels: int, repetition: int) -> list[tuple[Choice, str]]:
    """Return each way's choice with its description; all see the same labels, drawn with the protocol's
    seed.
    """
    pool = statistics_of(predictions)
    sample = draw_sample(predictions.labels, n_labels, n_classes=predictions.n_classes, repetition=repetition)
    return [
        (choose(method, predictions, sample, pool=pool, repetition=repetition), words)
        for method, words in WAYS
    ]


def print_verdicts(choices: list[tuple[Choice, str]], predictions: Predictions, truth: Truth) -> None:
    """Print what the held-out test part says of each choice, beside the best and the teacher."""
    assert predictions.cost is not None
    print(f"   {'rule':<16}{'picks':<26}{'memory':>8}{'test loss':>11}{'regret':>9}{'accuracy':>10}")
    for choice, words in choices:
        print(_row(choice.method, choice.index, predictions, truth) + f"   {words}")
    print(
        _row("(best of all)", truth.oracle, predictions, truth)
        + "   known only because this test part is labeled"
    )
    print(
        f"   {'(float teacher)':<16}{'':<26}{'100.0 %':>8}{truth.teacher_loss:>11.3f}"
        f"{'':>9}{truth.teacher_accuracy:>10.1%}\n"
    )


def export_choice(choice: Choice, teacher: Teacher, predictions: Predictions, folder: Path) -> None:
    """Write the chosen candidate, re-run the written bytes on pool images, and print whether they match what
    was judged.
    """
    images = np.stack(
        [
            prepare(np.repeat(image[..., None], 3, axis=2), teacher.preprocessing)
            for image in sample_target().pool_images[:PROBES]
        ]
    )
    certificate = write(
        teacher,
        parse_slug(choice.name),
        folder,
        images=normalise(images, teacher.preprocessing),
        judged=predictions.candidates[choice.index, :PROBES],
        profiles=False,
    )
    passed = sum(check.passed for check in certificate.checks)
    sizes = certificate.sizes
    print(
        f"   {folder / 'model.onnx'}: {sizes.file / 1e3:,.0f} kB against {sizes.float_file / 1e3:,.0f} kB in"
        " float"
    )
    print(
        f"   {passed} of {len(certificate.checks)} checks passed: the file"
        f" {'is' if certificate.passed else 'is NOT'} the model that was judged"
    )


def _row(rule: str, index: int, predictions: Predictions, truth: Truth) -> str:
    assert predictions.cost is not None
    return (
        f"   {rule:<16}{predictions.names[index]:<26}{predictions.cost[index]:>8.1%}"
        f"{truth.losses[index]:>11.3f}{truth.regrets[index]:>9.3f}{truth.accuracies[index]:>10.1%}"
    )


def _show_progress(report: ProgressReport) -> None:
    if sys.stdout.isatty():
        left = "" if report.seconds_left is None else f", {report.seconds_left:.0f} s left"
        _clear_line()
        bar = "#" * (30 * report.done // max(report.total, 1))
        print(
            f"   [{bar:<30}] {report.stage}, {report.images_per_second:,.0f} images/s{left}",
            end="",
            flush=True,
        )


def _clear_line() -> None:
    if sys.stdout.isatty():
        print("\r\033[K", end="")


def main() -> None:
    """Run the demonstration."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "name", nargs="?", default="digits-resnet", choices=sample_names(with_teacher=True), metavar="NAME"
    )
    parser.add_argument(
        "--labels", type=int, default=25, help="labeled images the choice may use (default 25)"
    )
    parser.add_argument(
        "--repetition", type=int, default=0, help="which of the protocol's random subsets is labeled"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(tempfile.gettempdir()) / "anchorpoint-demo",
        help="folder for the exported model",
    )
    options = parser.parse_args()
    try:
        check_folder(options.out)
    except UserError as error:
        parser.error(str(error))

    print(f"1. Teacher: {SAMPLES[options.name].title}. {SAMPLES[options.name].description}")
    teacher = load_sample_teacher(options.name)
    print(
        f"   {len(teacher.kernels)} quantizable layers, {teacher.float_bytes / 1e3:,.0f} kB in float,"
        f" {teacher.n_classes} classes\n"
    )
    print(
        "2. Candidates: 2 to 8 bits, per tensor or per channel, three clipping levels, ends quantized or not;"
        " run on the target"
    )
    with tempfile.TemporaryDirectory() as store:
        predictions = run_candidates(teacher, Path(store))
    print(
        f"3. Choices from {options.labels} labeled and {predictions.n_images} unlabeled images, and what the"
        " test part says (lower loss is better)"
    )
    choices = choose_each_way(predictions, options.labels, options.repetition)
    print_verdicts(choices, predictions, truth_of(predictions))
    recommended = choices[0][0]
    for warning in recommended.warnings:
        print(f"   Doubt: {warning}")
    print(f"\n4. Export of {recommended.name}")
    export_choice(recommended, teacher, predictions, options.out)


if __name__ == "__main__":
    main()
