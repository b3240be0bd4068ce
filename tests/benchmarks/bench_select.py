"""Selection rules against the same rules written as loops, and optimal transport against POT called alone."""

import time
from collections.abc import Callable, Iterator

import numpy as np

from engine.rules.label_free import LABEL_FREE
from engine.rules.statistics import pool_statistics
from engine.rules.supervised import SUPERVISED, sample_evidence, search_coefficient, select
from engine.rules.transport import optimal_transport
from engine.types import LabeledSample
from tests import literal
from tests.families import random_arrays

N_CANDIDATES = 72


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Best of a few runs: on a shared machine the fastest is the least disturbed."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def _all_rules(teacher, candidates, sample) -> None:
    pool = pool_statistics(teacher, candidates)
    for name, rule in LABEL_FREE.items():
        if name != "cot":
            rule.score(pool)
    evidence = sample_evidence(teacher, candidates, sample)
    for method in SUPERVISED:
        select(method, evidence, pool.distortion, tuple(map(str, range(len(candidates)))))


def _literal_rules(teacher, candidates, sample) -> None:
    scores = literal.label_free(teacher, candidates, len(teacher) // 2)
    for method, rule in SUPERVISED.items():
        term = [
            [
                literal.supervised_term(method, teacher[r], p[r], y, permuted=(teacher[r], y))
                for r, y in zip(sample.rows, sample.labels, strict=True)
            ]
            for p in candidates
        ]
        if rule.grid is not None:
            literal.algorithm1(scores["distortion"], term, term, rule.grid.tolist())


def main(quick: bool = False) -> Iterator[str]:
    yield "| what (72 candidates) | ours | compared with | time | ratio |"
    yield "|---|---|---|---|---|"
    for n_images, n_classes in ((300, 30), (600 if quick else 6000, 50)):
        teacher, candidates, labels = random_arrays(
            0, n_candidates=N_CANDIDATES, n_images=n_images, n_classes=n_classes
        )
        rows = np.random.default_rng(0).permutation(n_images)[:50]
        sample = LabeledSample(rows, labels[rows])
        where = f"N={n_images}, K={n_classes}"
        yield _rules_line(teacher, candidates, sample, where)
        yield _algorithm_line(teacher, candidates, sample, where)
        yield _transport_line(candidates[: 8 if n_images > 1000 else N_CANDIDATES], teacher, where)


def _rules_line(teacher, candidates, sample, where: str) -> str:
    ours = seconds(lambda: _all_rules(teacher, candidates, sample))
    # The loops take minutes on the whole family: two candidates are timed and the result scaled up.
    loops = seconds(lambda: _literal_rules(teacher, candidates[:2], sample), 1) * N_CANDIDATES / 2
    return (
        f"| all rules but COT, {where}, n=50 | {ours:.3f} s | literal loops (2 of 72 candidates, scaled) |"
        f" {loops:.1f} s | {loops / ours:.0f}x |"
    )


def _algorithm_line(teacher, candidates, sample, where: str) -> str:
    pool, rule = pool_statistics(teacher, candidates), SUPERVISED["ce-combo"]
    evidence = sample_evidence(teacher, candidates, sample)
    term = rule.term(evidence)
    ours = seconds(lambda: search_coefficient(pool.distortion, term, evidence.loss, rule.grid), 20)
    loops = seconds(lambda: literal.algorithm1(pool.distortion, term, evidence.loss, rule.grid.tolist()), 1)
    return (
        f"| Algorithm 1, ce-combo, {where}, n=50 | {1000 * ours:.2f} ms | literal loops | {1000 * loops:.0f}"
        f" ms | {loops / ours:.0f}x |"
    )


def _transport_line(candidates, teacher, where: str) -> str:
    ot = optimal_transport()
    n_images, n_classes = candidates.shape[1:]
    rows, classes = np.full(n_images, 1 / n_images), np.full(n_classes, 1 / n_classes)
    alone = seconds(lambda: [ot.emd2(rows, classes, 1 - p, numItermax=10_000_000) for p in candidates], 2)
    pool = pool_statistics(teacher, candidates)
    ours = seconds(lambda: type(pool).transport.func(pool), 2)
    return (
        f"| COT, {where}, {len(candidates)} candidates | {ours:.2f} s | POT emd2 alone | {alone:.2f} s |"
        f" {alone / ours:.2f}x |"
    )
