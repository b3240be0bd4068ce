"""`study`: the paper's protocol on one or many predictions files, with tables, figures and a report."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.commands.numbers import numbers, split
from engine.commands.select import add_trust_argument
from engine.decide.choose import METHODS
from engine.family.cost import parse_budget
from engine.recommend.trust import label_trust
from engine.rules.anchors import ANCHORS
from engine.study.protocol.active import ACTIVE
from engine.study.protocol.config import STUDY_RULES, StudyConfig
from engine.study.protocol.noise import MATRIX, NOISE_KINDS, UNIFORM
from engine.study.protocol.run import run_study
from engine.study.report.page import write_report
from engine.study.tables.findings import summary as findings
from engine.types import FLOOR, UserError

HELP = "run the paper's protocol on predictions files and write tables, figures and a report"
_BAR = 24  # characters
_MATRIX_BYTES = 32_000_000  # a noise matrix of some thousand classes; more is not read
_EXAMPLES = {"--budgets": "10,25", "--rates": "0,0.2", "--floors": "1e-8,1e-6"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = StudyConfig()
    parser.add_argument("files", nargs="+", metavar="FILE", help="predictions .npz with a test part")
    parser.add_argument(
        "--out", required=True, help="folder for the study; a killed study goes on from what is there"
    )
    parser.add_argument(
        "--groups", help="CSV of family,setting,shift,seed,execution; family is a file's name without .npz"
    )
    parser.add_argument(
        "--budgets", default=",".join(map(str, default.budgets)), help="numbers of labels, e.g. 10,25,50"
    )
    parser.add_argument("--rates", default="0", help="shares of wrong labels, e.g. 0,.2,.4")
    parser.add_argument(
        "--noise",
        default=UNIFORM,
        help=(
            f"how labels go wrong: {', '.join(NOISE_KINDS)} (default {UNIFORM}), or the path of a CSV with a"
            " row of weights for each true class, which is the kind matrix"
        ),
    )
    add_trust_argument(parser)
    parser.add_argument("--rules", help=f"any of: {', '.join(STUDY_RULES)} (default: all but the last three)")
    parser.add_argument(
        "--active", action="store_true", help="also study `auto` on labels chosen by label-next; takes longer"
    )
    parser.add_argument(
        "--repetitions",
        type=int,
        help="samples drawn per cell (default: 25 with clean labels, 10 with wrong ones)",
    )
    parser.add_argument("--memory-budgets", help="shares of float memory beside no limit, e.g. .22,.3")
    parser.add_argument("--anchors", default="pool", help=f"any of: {', '.join(ANCHORS)}")
    parser.add_argument(
        "--floors",
        default=f"{FLOOR:g}",
        help="lower clips of probabilities, the main one first, e.g. 1e-8,1e-6,1e-12",
    )
    parser.add_argument(
        "--workers", type=int, help="families studied at the same time (default: one per core)"
    )
    parser.add_argument(
        "--ray",
        metavar="ADDRESS|local",
        help="study on a Ray cluster, or on one started here; needs requirements-ray.txt",
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    if args.workers is not None and args.workers < 1:
        raise UserError(f"--workers is {args.workers}; at least 1 is needed.")
    if not args.out.strip() or any(part.is_file() for part in (Path(args.out), *Path(args.out).parents)):
        raise UserError(
            f"--out is {args.out!r}, which is not a folder. Give the name of a folder, e.g. study."
        )
    config = _config(args)
    result = run_study(
        args.files,
        args.out,
        config,
        groups=args.groups,
        workers=args.workers,
        ray=args.ray,
        on_progress=_progress_bar(),
    )
    report = write_report(result)
    return {
        "out": str(result.out),
        "report": str(report),
        "families": list(result.families),
        "rows": len(result.results),
        "skipped": [{"family": entry.family, "reason": entry.reason} for entry in result.skipped],
        "findings": findings(result),
    }


def _config(args: argparse.Namespace) -> StudyConfig:
    limits = [parse_budget(text) for text in split(args.memory_budgets or "")]
    matrix = _noise_matrix(args.noise)
    return StudyConfig(
        budgets=numbers(args.budgets, "--budgets", int, _EXAMPLES["--budgets"]),
        rates=numbers(args.rates, "--rates", float, _EXAMPLES["--rates"]),
        rules=_rules(args),
        repetitions=args.repetitions,
        memory_budgets=(None, *limits),
        anchors=tuple(split(args.anchors)),
        floors=numbers(args.floors, "--floors", float, _EXAMPLES["--floors"]),
        noise=args.noise if matrix is None else MATRIX,
        noise_matrix=matrix,
        label_trust=label_trust(args.label_trust),
    )


def _noise_matrix(given: str) -> tuple[tuple[float, ...], ...] | None:
    """Return the weights of wrong classes in a CSV file, or None if a kind of noise is named."""
    if given in NOISE_KINDS and given != MATRIX:
        return None
    if not Path(given).is_file():
        raise UserError(
            f"{given!r} is neither a kind of noise nor a file.",
            f"Use one of {', '.join(kind for kind in NOISE_KINDS if kind != MATRIX)}, or the path of a CSV"
            " file with a row of weights for each true class.",
            option="noise",
        )
    with Path(given).open(encoding="utf-8", newline="") as file:
        text = file.read(_MATRIX_BYTES)
    try:
        return tuple(tuple(float(cell) for cell in row) for row in csv.reader(text.splitlines()) if row)
    except ValueError:
        raise UserError(
            f"{given} holds something that is not a number.",
            "Give numbers with commas between.",
            option="noise",
        ) from None


def _rules(args: argparse.Namespace) -> tuple[str, ...]:
    named = METHODS if args.rules is None else tuple(split(args.rules))
    return (*named, ACTIVE) if args.active and ACTIVE not in named else named


def _progress_bar() -> Callable[[int, int], None] | None:
    """Return a callback that draws one line on a terminal, or None where nobody watches."""
    if not sys.stderr.isatty():
        return None
    started = time.monotonic()

    def draw(done: int, total: int) -> None:
        filled = _BAR * done // max(total, 1)
        spent = time.monotonic() - started
        left = f", about {spent / done * (total - done):.0f} s left" if 0 < done < total else ""
        end = "\n" if done == total else ""
        sys.stderr.write(
            f"\r[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{total} families{left}\x1b[K{end}"
        )
        sys.stderr.flush()

    return draw


def summary(result: dict[str, Any]) -> str:
    n = len(result["families"])
    lines = [
        f"{n} {'families' if n != 1 else 'family'}, {result['rows']} selections. Report:"
        f" {Path(result['report'])}"
    ]
    lines += [f"- {sentence}" for sentence in result["findings"]]
    return "\n".join(
        lines + [f"left out {entry['family']}: {entry['reason']}" for entry in result["skipped"]]
    )
