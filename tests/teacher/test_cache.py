"""Import once: the same file with the same options comes out of the store unchanged; whatever is not whole,
not unaltered or not ours is imported anew.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from engine.teacher import cache, guarded
from engine.teacher.cache import entry_path, read_entry
from engine.teacher.graph import save
from engine.teacher.guarded import load_once
from engine.teacher.request import MAX_BYTES, LoadRequest
from engine.types import Teacher
from tests.tiny_teacher import tiny_teacher

FIELDS = ("name", "source", "kernels", "preprocessing", "class_names", "output", "float_bytes", "notes")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    save(tiny_teacher(), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


@pytest.fixture
def imports(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The specs that were really imported, in this process."""
    from engine.teacher.load import load_teacher

    seen: list[str] = []

    def load(request: LoadRequest) -> Teacher:
        seen.append(Path(request.spec).name)
        return load_teacher(request)

    monkeypatch.setattr(guarded, "load_guarded", load)
    return seen


def entry_of(file: Path, store: Path, **stated: Any) -> Path:
    path = entry_path(store, LoadRequest(spec=str(file), **stated))
    assert path is not None
    return path


def test_the_second_time_the_same_teacher_comes_from_the_store(
    file: Path, tmp_path: Path, imports: list[str]
) -> None:
    first, again = load_once(file, store=tmp_path / "s"), load_once(file, store=tmp_path / "s")
    assert imports == ["net.onnx"]
    assert again.fingerprint == first.fingerprint
    assert again.graph == first.graph
    assert [getattr(again, name) for name in FIELDS] == [getattr(first, name) for name in FIELDS]
    for name, array in first.weights.items():
        np.testing.assert_array_equal(again.weights[name], array)
        assert not again.weights[name].flags.writeable


def test_other_options_another_name_other_bytes_or_another_store_are_imported(
    file: Path, tmp_path: Path, imports: list[str]
) -> None:
    store = tmp_path / "s"
    load_once(file, store=store)
    assert load_once(file, store=store, class_names=list("abcd")).class_names == tuple("abcd")
    assert load_once(file, store=store, scale=0.5).preprocessing.scale == 0.5
    (tmp_path / "copy.onnx").write_bytes(file.read_bytes())
    load_once(tmp_path / "copy.onnx", store=store)
    save(tiny_teacher(seed=1), file)
    load_once(file, store=store)
    load_once(file, store=tmp_path / "other")
    assert len(imports) == 6


def test_an_engine_with_other_importers_or_frameworks_does_not_use_it(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = entry_of(file, tmp_path)
    monkeypatch.setattr(cache, "_importers", lambda: "changed")
    changed = entry_of(file, tmp_path)
    monkeypatch.setattr(cache, "_version", lambda package: "99")
    assert len({before, changed, entry_of(file, tmp_path)}) == 3


@pytest.mark.parametrize("damage", ["truncated", "altered", "no digest", "empty", "digest of another"])
def test_a_damaged_entry_is_made_anew(file: Path, tmp_path: Path, imports: list[str], damage: str) -> None:
    first = load_once(file, store=tmp_path / "s")
    entry = entry_of(file, tmp_path / "s")
    content, digest = entry.read_bytes(), entry.with_suffix(".sha256")
    match damage:
        case "truncated":
            entry.write_bytes(content[:-100])
        case "altered":
            entry.write_bytes(content[:-100] + bytes(100))
        case "no digest":
            digest.unlink()
        case "empty":
            entry.write_bytes(b"")
        case _:
            digest.write_text("0" * 64)
    assert load_once(file, store=tmp_path / "s").fingerprint == first.fingerprint
    assert load_once(file, store=tmp_path / "s").fingerprint == first.fingerprint
    assert len(imports) == 2


def test_an_entry_that_others_may_write_or_that_points_elsewhere_is_not_trusted(
    file: Path, tmp_path: Path, imports: list[str]
) -> None:
    load_once(file, store=tmp_path / "s")
    entry = entry_of(file, tmp_path / "s")
    entry.chmod(0o666)
    assert read_entry(entry, MAX_BYTES) is None
    entry.rename(tmp_path / "elsewhere.onnx")
    entry.symlink_to(tmp_path / "elsewhere.onnx")
    assert read_entry(entry, MAX_BYTES) is None


def test_an_entry_of_another_user_is_not_trusted(
    file: Path, tmp_path: Path, imports: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_once(file, store=tmp_path / "s")
    entry = entry_of(file, tmp_path / "s")
    assert read_entry(entry, MAX_BYTES) is not None
    monkeypatch.setattr(cache.os, "getuid", lambda: 12345)
    assert read_entry(entry, MAX_BYTES) is None


def test_a_file_with_weights_in_a_second_file_is_not_kept(
    file: Path, tmp_path: Path, imports: list[str]
) -> None:
    """Its own bytes stay the same when the second file changes."""
    onnx.save(onnx.load(file), file, save_as_external_data=True, location="weights.bin", size_threshold=0)
    load_once(file, store=tmp_path / "s")
    assert not entry_of(file, tmp_path / "s").exists()


def test_only_the_last_used_are_kept(file: Path, tmp_path: Path, imports: list[str]) -> None:
    for i in range(cache._KEPT + 2):
        load_once(file, store=tmp_path / "s", scale=1.0 + i)
    entries = list((tmp_path / "s" / "teachers").iterdir())
    assert len(entries) == 2 * cache._KEPT


def test_a_store_that_cannot_be_written_costs_nothing_but_time(
    file: Path, tmp_path: Path, imports: list[str]
) -> None:
    (tmp_path / "s").write_text("a file where the folder should be")
    assert load_once(file, store=tmp_path / "s").n_classes == 4


def test_public_weights_are_told_by_the_names_of_their_blobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    request = LoadRequest(spec="timm:resnet18")
    assert entry_path(tmp_path, request) is None
    blobs = tmp_path / "models--timm--resnet18.a1_in1k" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / "one").touch()
    before = entry_path(tmp_path, request)
    (blobs / "two").touch()
    assert before is not None
    assert entry_path(tmp_path, request) not in (before, None)


def test_reading_an_entry_needs_no_framework(file: Path, tmp_path: Path, imports: list[str]) -> None:
    load_once(file, store=tmp_path / "s")
    program = (
        "import sys; from pathlib import Path; from engine.teacher.guarded import load_once;"
        f"load_once({str(file)!r}, store=Path({str(tmp_path / 's')!r}));"
        "print([m for m in ('torch', 'timm', 'tensorflow', 'keras', 'tf2onnx') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
