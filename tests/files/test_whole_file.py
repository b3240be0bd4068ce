"""A file is there whole or not at all."""

import stat

import pytest

from engine.files.whole_file import whole_file


def test_written_whole_and_readable(tmp_path):
    path = tmp_path / "deep" / "file.bin"
    with whole_file(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    with whole_file(path, private=True) as file:
        file.write(b"mine")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_an_error_leaves_the_old_file_and_no_trace(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), whole_file(path) as file:  # noqa: PT012
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file.bin"]
