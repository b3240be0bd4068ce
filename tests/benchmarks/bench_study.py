"""The full corruption grid over many families, end to end on two cores, against Algorithm 1 written as loops
(measured on a slice).
"""

import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from engine.predictions.file import save_predictions
from engine.rules.sampling import control_permutation, draw_sample
from engine.rules.supervised import SUPERVISED
from engine.study.protocol.config import StudyConfig
from engine.study.protocol.one_family import run_family
from engine.study.protocol.run import run_study
from engine.types import LabeledSample, Predictions
from tests import literal
from tests.study.families import make_family

CONFIG = StudyConfig(
    budgets=(10, 25, 50, 100, 300), rates=(0.0, 0.2, 0.4), rules=tuple(SUPERVISED), repetitions=10
)
# distinct families; the others are further names of the same files, which the study takes as files of their
# own
N_DIFFERENT = 6
SLICE = 12  # of 72 candidates, in one of thirty repetitions x rates


def main(quick: bool = False) -> Iterator[str]:
    n_families = 4 if quick else 90
    family = _family(0)
    ours = _seconds_per_family(family)
    loops = _literal_slice(family) * (family.n_candidates / SLICE) * len(CONFIG.rates) * 10
    yield (
        "| what (72 candidates, 300 pool rows, 30 classes; 5 budgets x 3 rates x 10 repetitions x 6 rules) |"
        " time |"
    )
    yield "|---|---|"
    yield f"| one family, one process | {ours:.2f} s |"
    yield f"| one family, literal loops (1/{72 // SLICE * 30} measured, scaled) | {loops:.0f} s |"
    yield f"| ratio | {loops / ours:.0f}x |"
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        result = run_study(_files(Path(folder), n_families), Path(folder) / "out", CONFIG, workers=2)
        took = time.perf_counter() - start
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield (
        f"| {n_families} families from files to results.csv, 2 workers ({len(result.results):,} selections) |"
        f" {took:.1f} s |"
    )
    # On a busy machine the processor time says what a quiet one would take: half of it, on two cores.
    yield f"| the same, processor time of the workers | {workers.ru_utime + workers.ru_stime:.1f} s |"
    yield f"| most memory a worker held | {workers.ru_maxrss / 1024:.0f} MB |"


def _family(seed: int) -> Predictions:
    return make_family(seed, n_candidates=72, n_pool=300, n_test=900, n_classes=30)


def _files(folder: Path, n_families: int) -> list[Path]:
    files = []
    for at in range(n_families):
        path = folder / f"family{at:02d}.npz"
        if at < N_DIFFERENT:
            save_predictions(_family(at), path)
        else:
            os.link(files[at % N_DIFFERENT], path)
        files.append(path)
    return files


def _seconds_per_family(family: Predictions) -> float:
    times = []
    for _ in range(3):
        start = time.perf_counter()
        run_family(family, CONFIG)
        times.append(time.perf_counter() - start)
    return min(times)


def _literal_slice(family: Predictions) -> float:
    """Every budget and rule once, on a slice of the candidates."""
    candidates = family.candidates[:SLICE].astype(float)
    teacher = family.teacher.astype(float)
    start = time.perf_counter()
    anchor = [literal.distortion(teacher[:20], candidate[:20]) for candidate in candidates]
    for n in CONFIG.budgets:
        sample = draw_sample(family.labels, n, n_classes=family.n_classes, rate=0.2)
        for method, rule in SUPERVISED.items():
            term = _literal_terms(method, teacher, candidates, sample)
            loss = term if method == "ce-combo" else _literal_terms("val-ce", teacher, candidates, sample)
            if rule.grid is not None:
                literal.algorithm1(anchor, term, loss, rule.grid.tolist())
    return time.perf_counter() - start


def _literal_terms(method: str, teacher, candidates, sample: LabeledSample) -> list[list[float]]:
    other = control_permutation(sample.n)
    rows, labels = sample.rows, sample.labels
    return [
        [
            literal.supervised_term(
                method, teacher[rows[i]], p[rows[i]], labels[i], (teacher[rows[other[i]]], labels[other[i]])
            )
            for i in range(sample.n)
        ]
        for p in candidates
    ]
