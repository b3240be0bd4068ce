"""A crowd on one server: many visitors at once, then one after another, with the figures of docs/hosting.md.

Run as `python -m tests.load.crowd [VISITORS [ONE_AFTER_ANOTHER]]`, by default 20 and 100. Starts its own
server on this machine and speaks to nothing else; takes some minutes, at most half an hour.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.load.server import Server, serving
from tests.load.visitor import Visitor

SAMPLE = "sample-pacs-sketch"  # predictions only: no model has to be read
PAGES = ("candidates", "target", "choose", "export", "labels", "compare", "collapse", "study", "projects")
_MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Visit:
    """What one visitor met: the session's id, seconds of every page, errors, and names seen on the pages."""

    session: str
    seconds: tuple[float, ...]
    errors: tuple[str, ...]
    names: frozenset[int]


def visit(server: Server, number: int, pages: Sequence[str], timeout: float) -> Visit:
    """Open the sample, leave one's name on the Labels page, and look at pages."""
    with Visitor(server.port) as visitor:
        seen = [visitor.open(timeout=timeout), visitor.press(SAMPLE, timeout=timeout)]
        seen += [visitor.open("labels", timeout=timeout)]
        seen += [visitor.give("annotator", string_value=_name(number), timeout=timeout)]
        seen += [visitor.open(page, timeout=timeout) for page in (*pages, "labels")]
        words = "\n".join(page.text + "\n".join(page.values) for page in seen)
        names = frozenset(other for other in range(1000) if _name(other) in words)
        errors = tuple(error for page in seen for error in page.errors)
        return Visit(visitor.session, tuple(page.seconds for page in seen), errors, names)


def _name(number: int) -> str:
    return f"visitor-{number:03}."


def all_at_once(server: Server, n: int, pages_each: int) -> list[Visit]:
    """Let n visitors in at the same moment; between them they look at every page."""
    rounds = [[PAGES[(i + k) % len(PAGES)] for k in range(pages_each)] for i in range(n)]
    with ThreadPoolExecutor(n) as crowd:
        return list(crowd.map(lambda i: visit(server, i, rounds[i], _MOST_SECONDS), range(n)))


def one_after_another(server: Server, n: int) -> list[float]:
    """Let n visitors come, decide and go; return the server's megabytes after each."""
    sizes, started = [], time.monotonic()
    for _ in range(n):
        if time.monotonic() - started > _MOST_SECONDS:
            break
        with Visitor(server.port) as visitor:
            visitor.open()
            visitor.press(SAMPLE)
            visitor.open("choose")
        sizes.append(server.megabytes)
    return sizes


def main(n: int, n_sequential: int) -> None:
    """Print what a crowd costs."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as server:
        started = time.monotonic()
        visits = all_at_once(server, n, len(PAGES))
        taken = time.monotonic() - started
        seconds = sorted(second for one in visits for second in one.seconds)
        print(
            f"{n} at once: {len(seconds)} pages in {taken:.0f} s, {sum(len(v.errors) for v in visits)} errors"
        )
        print(f"a page: median {statistics.median(seconds):.1f} s, slowest {seconds[-1]:.1f} s")
        print(f"sessions: {len({v.session for v in visits})}; server {server.megabytes:.0f} MB")
        sizes = one_after_another(server, n_sequential)
        places = [place for place in (1, 10, 25, 50, 75, 100) if place <= len(sizes)]
        print("one after another, MB:", ", ".join(f"{sizes[place - 1]:.0f} ({place})" for place in places))


if __name__ == "__main__":
    main(*(int(text) for text in (*sys.argv[1:], *("20", "100")[len(sys.argv) - 1 :])))
