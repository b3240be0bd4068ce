"""Children that stay: one part that ends a child costs that part alone, and the next ones are answered."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine.guard import Answer, Fallen, Limits, Part, Pool
from engine.types import UserError

TIGHT = Limits(kind="images", memory=600_000_000, seconds=1.0, output_bytes=1_000_000)


@pytest.fixture
def pool() -> Iterator[Pool]:
    made = Pool("tests.guard.misbehaving:reply", TIGHT, "painting it")
    yield made
    made.close()


def parts(*deeds: str) -> list[Part]:
    return [Part({"deed": deed}, f"part {index}".encode()) for index, deed in enumerate(deeds)]


def test_parts_are_answered_in_order_by_a_child_that_stays(pool: Pool) -> None:
    first, again = pool.ask(parts("", "print", "")), pool.ask(parts(""))
    assert [answer.content for answer in first if isinstance(answer, Answer)] == [
        b"0 trap",
        b"1 trap",
        b"2 trap",
    ]
    assert isinstance(first[0], Answer)
    assert isinstance(again[0], Answer)
    assert first[0].facts["pid"] == again[0].facts["pid"] != os.getpid()


@pytest.mark.parametrize(
    ("deed", "words"),
    [
        ("fail", "painting it failed (RuntimeError: no such colour)"),
        ("loop", "painting it took longer than"),
        ("sleep", "painting it took longer than 4 s"),
        ("allocate", "painting it needs more than 0.6 GB of memory"),
        ("crash", "painting it ended abnormally (SIGSEGV)"),
    ],
)
def test_a_part_that_ends_its_child_costs_itself(deed: str, words: str, pool: Pool) -> None:
    before, fallen, after = pool.ask(parts("", deed, ""))
    assert isinstance(before, Answer)
    assert isinstance(fallen, Fallen)
    assert words in fallen.reason
    assert isinstance(after, Answer)
    assert after.content == b"2 trap"
    assert after.facts["pid"] != before.facts["pid"]


def test_a_refusal_is_no_fall(pool: Pool) -> None:
    refused, answered = pool.ask(parts("refuse", ""))
    assert isinstance(refused, UserError)
    assert (refused.problem, refused.remedy) == ("the part is green.", "Paint it blue.")
    assert isinstance(answered, Answer)


def test_large_parts_both_ways_and_many_threads(pool: Pool) -> None:
    """More than two pipes hold, in both directions at once."""
    contents = [bytes([index]) * 3_000_000 for index in range(6)]
    with ThreadPoolExecutor(3) as threads:
        asked = [
            threads.submit(pool.ask, [Part({}, content + b"e"), Part({}, content)]) for content in contents
        ]
        for content, future in zip(contents, asked, strict=True):
            first, second = future.result()
            assert isinstance(first, Answer)
            assert isinstance(second, Answer)
            assert (first.content, second.content) == (b"e" + content, content)


def test_closing_ends_the_children(pool: Pool) -> None:
    (answer,) = pool.ask(parts(""))
    assert isinstance(answer, Answer)
    pool.close()
    deadline = time.monotonic() + 5
    while Path(f"/proc/{answer.facts['pid']}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{answer.facts['pid']}").exists()
