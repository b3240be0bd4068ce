"""Class shares in: the word, the CSV, and one clear sentence for everything that is neither."""

from pathlib import Path

import numpy as np
import pytest

from engine.target.class_shares import LEAST, checked_shares, parse_class_shares, read_class_shares
from engine.types import UserError


def parse(text: str, n_classes: int = 3, names: tuple[str, ...] | None = ("cat", "dog", "owl")) -> np.ndarray:
    return parse_class_shares(text.encode(), name="shares.csv", n_classes=n_classes, class_names=names)


def test_equal_is_a_word() -> None:
    np.testing.assert_array_equal(read_class_shares("equal", n_classes=4), np.full(4, 0.25))


@pytest.mark.parametrize(
    "text",
    [
        "class,share\ncat,0.5\ndog,0.3\nowl,0.2\n",
        "class;share\nowl;20%\ncat;50%\ndog;30%\n",
        "Class,Share\n0,50\n1,30\n2,20\n",
    ],
    ids=["names", "percent", "counts"],
)
def test_names_numbers_counts_and_percentages_say_the_same(text: str) -> None:
    np.testing.assert_allclose(parse(text), [0.5, 0.3, 0.2])


def test_an_absent_class_is_rare_not_impossible() -> None:
    shares = parse("class,share\ncat,1\ndog,1\nowl,0\n")
    assert shares[2] == pytest.approx(LEAST, rel=1e-3)
    assert shares.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cat,0.5\n", "no columns class,share"),
        ("class,share\ncat,0.5\ncat,0.5\n", "line 3: this class stands twice"),
        ("class,share\nbird,0.5\n", "line 2: label 'bird' is unknown"),
        ("class,share\ncat,many\n", "line 2: 'many' is no share"),
        ("class,share\ncat,-1\n", "'-1' is no share"),
        ("class,share\ncat,nan\n", "'nan' is no share"),
        ("class,share\ncat,0.5\n", "leaves 2 of 3 classes out"),
        ("class,share\ncat,0\ndog,0\nowl,0\n", "only zeros"),
    ],
)
def test_what_cannot_be_shares_is_one_sentence(text: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parse(text)


def test_neither_word_nor_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="neither `equal` nor a file"):
        read_class_shares("evenly", n_classes=3)
    big = tmp_path / "big.csv"
    big.write_bytes(b"class,share\n" + b"0,1\n" * (1 << 19))
    with pytest.raises(UserError, match="too large"):
        read_class_shares(str(big), n_classes=3)


@pytest.mark.parametrize(
    "values", [[1.0, 2.0], [[1.0, 1.0, 1.0]], ["a", "b", "c"], [1, -1, 1], [np.inf, 1, 1]]
)
def test_arrays_are_checked_too(values: object) -> None:
    with pytest.raises(UserError, match="class_shares"):
        checked_shares(values, 3)
