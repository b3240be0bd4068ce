"""`make bench`: every benchmark compares two things in one run on one machine and prints the ratio as a
Markdown table.

`python -m tests.benchmarks select study` runs some of them; `--quick` shrinks the work for a smoke test.
"""

import importlib
import sys
from pathlib import Path


def main(arguments: list[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return
    quick = "--quick" in arguments
    available = sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))
    wanted = [name for name in arguments if not name.startswith("-")] or available
    for name in wanted:
        if name not in available:
            sys.exit(f"unknown benchmark {name!r}; there are {', '.join(available)}")
        print(f"\n## {name}\n", flush=True)
        for line in importlib.import_module(f"tests.benchmarks.bench_{name}").main(quick=quick):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
