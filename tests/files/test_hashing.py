"""File hashes, against the published test vectors of SHA-256."""

from __future__ import annotations

import io
from pathlib import Path

from engine.files.hashing import sha256_of

# FIPS 180-2, appendix B: the message "abc"; and the hash of nothing.
ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_a_path_and_an_open_file_have_the_published_hash(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert sha256_of(tmp_path / "abc") == sha256_of(str(tmp_path / "abc")) == ABC
    with (tmp_path / "abc").open("rb") as file:
        assert sha256_of(file) == ABC
        assert sha256_of(file) == EMPTY  # what is left of it


def test_a_file_in_memory_counts_too() -> None:
    assert sha256_of(io.BytesIO(b"abc")) == ABC
