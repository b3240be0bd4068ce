"""Hostile text files: labels as CSV, class names; every encoding, every separator, every length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engine.target.labels import LabelSpace, parse_labels
from engine.types import UserError
from tests.hostile.contract import Contract
from tests.hostile.mutation import mutated
from tests.hostile.test_arrays import family, packed

GOOD = b"row,label\n0,1\n1,2\n2,0\n5,3\n"
CASES: dict[str, bytes] = {
    "bare returns": GOOD.replace(b"\n", b"\r"),
    "windows": GOOD.replace(b"\n", b"\r\n"),
    "mixed ends": b"row,label\r0,1\n1,2\r\n2,0",
    "utf-16": GOOD.decode().encode("utf-16"),
    "utf-32": GOOD.decode().encode("utf-32"),
    "latin-1": b"row,label\n0,caf\xe9\n",
    "marked utf-8": b"\xef\xbb\xbf" + GOOD,
    "five thousand digits": b"row,label\n" + b"9" * 5000 + b",1\n",
    "five thousand digits as label": b"row,label\n0," + b"9" * 5000 + b"\n",
    "superscript": "row,label\n0,²\n".encode(),
    "arabic digits": "row,label\n٠,١\n".encode(),
    "a long field": b"row,label\n0," + b"x" * 200_000 + b"\n",
    "a long first line": b"x" * 200_000 + b",label\n",
    "an open quote": b'row,label\n0,"1\n1,2\n',
    "an open quote over everything": b'row,label\n"' + b"0,1\n" * 50_000,
    "nothing": b"",
    "only the head": b"row,label\n",
    "null bytes": b"row,label\n0,1\n\x00\x00\x00",
    "ten thousand columns": b",".join([b"row,label", *[b"c"] * 10_000]) + b"\n0,1\n",
    "negative": b"row,label\n-1,1\n",
    "twice": b"row,label\n0,1\n0,1\n",
    "formula": b"row,label\n=cmd|' /C calc'!A0,1\n",
    "files that nobody named": b"file,label\n../../etc/passwd,1\n",
    "escape codes": b"row,label\n0,\x1b[2J\n",
}


@pytest.mark.parametrize("name", CASES)
def test_strange_labels(name: str, contract: Contract) -> None:
    Path("family.npz").write_bytes(packed(family()))
    Path("labels.csv").write_bytes(CASES[name])
    said = contract.run("select", "family.npz", "--labels", "labels.csv", "--method", "val-ce")
    fine = ("bare returns", "windows", "mixed ends", "marked utf-8", "ten thousand columns", "arabic digits")
    assert bool(said) == (name not in fine)


@pytest.mark.parametrize("seed", range(60))
def test_damaged_labels(seed: int) -> None:
    """Read, or refused as a UserError; nothing else may come out."""
    space = LabelSpace(12, 4, ("ant", "bee", "cat", "dog"), tuple(f"a/{i}.png" for i in range(12)))
    good = b"file,label\n" + b"".join(
        b"a/%d.png,%s\n" % (i, name) for i, name in enumerate([b"ant", b"3", b"dog"])
    )
    content = mutated([GOOD, good][seed % 2], seed)
    try:
        sample = parse_labels(content, name="labels.csv", space=space)
    except UserError:
        return
    assert sample.rows.max() < 12
    assert sample.labels.max() < 4


def test_sixty_thousand_files_are_found_in_moments() -> None:
    """A line that searched all names took over a minute; the oracle is the order they were written in."""
    files = tuple(f"class{i % 7}/image{i}.png" for i in range(60_000))
    order = np.random.default_rng(0).permutation(60_000)
    text = "file,label\n" + "".join(f"{files[i]},{i % 3}\n" for i in order)
    sample = parse_labels(text.encode(), name="labels.csv", space=LabelSpace(60_000, 3, None, files))
    assert (sample.rows == order).all()


@pytest.mark.parametrize("content", [b"\xff\xfea\x00b\x00", b"caf\xe9\n", b"", b"\0\0", b"a\n" * 100_000])
def test_strange_class_names(content: bytes, contract: Contract) -> None:
    Path("names.txt").write_bytes(content)
    np.save("images.npy", np.zeros((2, 8, 8, 3), np.uint8))
    assert contract.run(
        *("predict", "--teacher", "missing.onnx", "--images", "images.npy", "--out", "o.npz"),
        *("--class-names", "names.txt"),
        made=("store",),
    )
