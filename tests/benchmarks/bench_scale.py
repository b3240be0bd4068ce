"""Rules on families larger than memory, against one numpy pass over the same file on one core; memory;
growth.

Each part runs in a process of its own, whose peak of resident memory is then its own. `python -m
tests.benchmarks.bench_scale N` measures another number of images than 20,000, e.g. 50000.
"""

import json
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from engine.decide.choose import choose, statistics_of
from engine.family.recipes import standard_family
from engine.predictions.file import load_predictions
from engine.predictions.folder import shard_name
from engine.rules.label_free import LABEL_FREE, passes_for
from engine.rules.sampling import draw_subset
from engine.types import LabeledSample, Predictions

N_IMAGES, N_CLASSES, N_CANDIDATES, N_LABELS = 20_000, 1000, 72, 100
BARS = {"val-ce": 0.2, "distortion": 1.5, "auto": 4.0, "label-free but cot": 6.0}
REFERENCE = "one numpy pass, one core"
MEMORY = 2.0  # GB
_ROWS = 2000  # made at a time


def make_family(folder: Path, n_images: int, n_classes: int, n_candidates: int = N_CANDIDATES) -> None:
    """Write a made-up family in float16: 2-bit candidates collapse, high-bit ones follow a fair teacher."""
    rng = np.random.default_rng(0)
    (folder / "candidates").mkdir(parents=True)
    labels = rng.integers(0, n_classes, n_images)
    recipes = standard_family()[:: len(standard_family()) // n_candidates][:n_candidates]
    _write(folder / "teacher.npy", labels, n_classes, lambda logits, rng: 1.3 * logits)
    for recipe in recipes:
        damage = 9.0 * 2.0 ** -(recipe.bits - 1) * (1.2 if recipe.granularity == "tensor" else 1.0)

        def hurt(logits, rng, damage=damage, collapses=recipe.bits == 2):
            noise = rng.standard_normal(logits.shape, np.float32)
            logits = logits + np.float32(damage) * noise
            logits[:, 0] += 20 * collapses
            return logits

        _write(folder / "candidates" / shard_name(recipe.slug), labels, n_classes, hurt)
    meta = {"names": [recipe.slug for recipe in recipes], "labels": labels.tolist()}
    (folder / "meta.json").write_text(json.dumps(meta))


def _write(path: Path, labels: np.ndarray, n_classes: int, change: Callable) -> None:
    out = np.lib.format.open_memmap(path, "w+", np.float16, (len(labels), n_classes))
    own = np.random.default_rng(zlib.crc32(path.name.encode()))
    for start in range(0, len(labels), _ROWS):
        part = labels[start : start + _ROWS]
        logits = 1.5 * np.random.default_rng(start).standard_normal((len(part), n_classes), np.float32)
        logits[np.arange(len(part)), part] += 5
        logits = change(logits, own)
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        logits /= logits.sum(axis=1, keepdims=True)
        out[start : start + _ROWS] = logits


# --- one part, in a process of its own ------------------------------------------------------


def _reference(folder: Path) -> None:
    """Read every value, take its logarithm, one dot product: as fast as plain numpy does it in float32."""
    teacher = np.load(folder / "teacher.npy").astype(np.float32)
    buffer = np.empty((500, teacher.shape[1]), np.float32)
    for path in sorted((folder / "candidates").iterdir()):
        values = np.load(path, mmap_mode="r")
        for start in range(0, len(values), len(buffer)):
            own = teacher[start : start + len(buffer)]
            logs = buffer[: len(own)]
            np.maximum(values[start : start + len(own)], np.float32(1e-8), out=logs, dtype=np.float32)
            np.vdot(own, np.log(logs, out=logs))


def _sample(family: Predictions) -> LabeledSample:
    rows = draw_subset(family.n_images, N_LABELS)
    return LabeledSample(rows, family.labels[rows])


def _label_free(folder: Path) -> None:
    pool = statistics_of(load_predictions(folder))
    rules = [rule for rule in LABEL_FREE if rule != "cot"]
    pool.need(*passes_for(rules))
    for rule in rules:
        LABEL_FREE[rule].score(pool)


def _choose(method: str) -> Callable[[Path], object]:
    def work(folder: Path) -> object:
        family = load_predictions(folder)
        return choose(method, family, _sample(family))

    return work


PARTS: dict[str, Callable[[Path], object]] = {
    REFERENCE: _reference,
    "label-free but cot": _label_free,
    **{method: _choose(method) for method in ("val-ce", "distortion", "auto")},
}


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


def run_part(part: str, folder: Path, repeats: int = 1) -> dict[str, float]:
    """Run one part in a process of its own; return its best seconds and its peak of resident memory in GB."""
    code = f"from tests.benchmarks.bench_scale import child; child({part!r}, {str(folder)!r}, {repeats})"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def child(part: str, folder: str, repeats: int) -> None:
    """Do one part and print what it took; the reference keeps to one core."""
    from threadpoolctl import threadpool_limits

    times, before = [], time.process_time()
    with threadpool_limits(1 if part == REFERENCE else None):
        for _ in range(repeats):
            started = time.perf_counter()
            PARTS[part](Path(folder))
            times.append(time.perf_counter() - started)
    spent = (time.process_time() - before) / repeats
    print(json.dumps({"seconds": min(times), "processor": spent, "gigabytes": _peak() / 1e9}))


# --- the report -----------------------------------------------------------------------------


def bars(folder: Path, n_images: int, n_classes: int, repeats: int) -> Iterator[str]:
    """Compare every part with the reference on one family."""
    yield (
        f"| N = {n_images:,}, K = {n_classes:,}, M = {N_CANDIDATES}, float16 | time | times the pass | bar"
        f" | processor seconds, all cores | resident memory (bar {MEMORY:g} GB) |"
    )
    yield "|---|---|---|---|---|---|"
    reference = run_part(REFERENCE, folder, repeats)
    yield f"| {REFERENCE} | {reference['seconds']:.2f} s | 1 | | {reference['processor']:.1f} | |"
    for part, bar in BARS.items():
        found = run_part(part, folder, repeats)
        ratio = found["seconds"] / reference["seconds"]
        yield (
            f"| {part} | {found['seconds']:.2f} s | {ratio:.3f} | {bar:g} | {found['processor']:.1f}"
            f" | {found['gigabytes']:.2f} GB |"
        )


def growth(n_images: int, n_classes: int) -> Iterator[str]:
    """State the exponent of the processor time in N and in M, from three sizes each, all of them too large to
    hold: smaller ones are read in another way.
    """
    yield "| processor time grows as | " + " | ".join(BARS) + " |"
    yield "|---|" + "---|" * len(BARS)
    sizes = {
        "N": [(n_images * step, N_CANDIDATES // 2) for step in (1, 2, 4)],
        "M": [(n_images * 2, m) for m in (18, 36, 72)],
    }
    for name, cases in sizes.items():
        times: dict[str, list[float]] = {part: [] for part in BARS}
        for n, m in cases:
            with tempfile.TemporaryDirectory() as folder:
                make_family(Path(folder), n, n_classes, m)
                for part in BARS:
                    times[part].append(run_part(part, Path(folder))["processor"])
        spread = np.log([case[name == "M"] for case in cases])
        slopes = [np.polyfit(spread, np.log(times[part]), 1)[0] for part in BARS]
        shown = ", ".join(str(case[name == "M"]) for case in cases)
        yield f"| {name} ({shown}) | " + " | ".join(f"{name}^{slope:.2f}" for slope in slopes) + " |"


def main(quick: bool = False, n_images: int = N_IMAGES) -> Iterator[str]:
    n_images, n_classes = (1000, 100) if quick else (n_images, N_CLASSES)
    with tempfile.TemporaryDirectory() as folder:
        make_family(Path(folder), n_images, n_classes)
        yield from bars(Path(folder), n_images, n_classes, repeats=2)
    yield ""
    if n_images <= N_IMAGES:
        yield from growth(n_images // 4, n_classes)


if __name__ == "__main__":
    for line in main(n_images=int(sys.argv[1])):
        print(line, flush=True)
