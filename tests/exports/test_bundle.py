"""Bundles: the same bytes each time, any change is noticed, and a stranger's archive cannot reach outside
itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from engine.exports.bundle import write_bundle
from engine.exports.certificate import Certificate
from engine.exports.verification import verify
from engine.exports.writing import write
from engine.family.recipes import parse_slug
from engine.teacher.agreement import random_images
from engine.types import UserError
from tests.tiny_teacher import tiny_teacher

IMAGES = random_images(6, tiny_teacher().preprocessing, 3)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    write(
        tiny_teacher(),
        parse_slug("b4-channel-q99"),
        folder,
        images=IMAGES,
        formats=("onnx", "safetensors", "packed"),
        profiles=False,
    )
    return folder


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(exported, tmp_path / "copy"))


def _rezip(source: Path, target: Path, change: dict[str, bytes | None]) -> Path:
    """Copy a zip with entries replaced, added, or (None) left out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if name not in change:
                new.writestr(name, old.read(name))
        for name, content in change.items():
            if content is not None:
                new.writestr(name, content)
    return target


def _resealed(folder: Path, **fields: object) -> None:
    """Rewrite the certificate as somebody would who knows how it is sealed."""
    path = folder / "certificate.json"
    certificate = Certificate.from_json(path.read_text(encoding="utf-8"))
    path.write_text(type(certificate)(**{**certificate.__dict__, **fields}).to_json(), encoding="utf-8")


def test_zip_and_folder_verify_and_the_zip_is_deterministic(exported: Path, tmp_path: Path) -> None:
    first, second = write_bundle(exported, tmp_path / "a.zip"), write_bundle(exported, tmp_path / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    for path in (exported, first):
        found = verify(path)
        assert found.passed, found
        assert found.recipe == "b4-channel-q99"
    with zipfile.ZipFile(first) as archive:
        assert set(archive.namelist()) == {path.name for path in exported.iterdir()}


def test_own_images_are_recognised_in_any_order_and_strange_ones_fail(exported: Path) -> None:
    mixed = np.concatenate([random_images(2, tiny_teacher().preprocessing, 99), IMAGES[::-1]])
    check = verify(exported, mixed).checks[-1]
    assert check.passed
    assert "6 of the 8" in check.sentence
    strange = verify(exported, random_images(2, tiny_teacher().preprocessing, 98))
    assert not strange.passed
    assert "nothing to compare" in strange.checks[-1].sentence


@pytest.mark.parametrize(
    "name",
    [
        "model.onnx",
        "README.md",
        "predict.py",
        "certificate.html",
        "certificate.json",
        "packed.safetensors",
        "model.safetensors",
    ],
)
def test_one_changed_byte_anywhere_fails(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    assert not verify(folder).passed
    assert not verify(write_zip(folder)).passed


def write_zip(folder: Path) -> Path:
    """Zip a folder without asking its certificate."""
    return Path(shutil.make_archive(str(folder), "zip", folder))


def test_missing_and_additional_files(exported: Path, folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    assert not verify(folder).passed
    with pytest.raises(UserError, match=r"lacks model\.safetensors"):
        write_bundle(folder, tmp_path / "no.zip")
    bundle = write_bundle(exported, tmp_path / "full.zip")
    assert not verify(_rezip(bundle, tmp_path / "more.zip", {"run_me.py": b"1"})).passed


def test_another_model_under_a_rewritten_hash_is_found_out_by_running_it(
    folder: Path, tmp_path: Path
) -> None:
    write(tiny_teacher(), parse_slug("b2-tensor-q99"), tmp_path / "other", profiles=False)
    shutil.copy(tmp_path / "other" / "model.onnx", folder / "model.onnx")
    files = dict(Certificate.from_json((folder / "certificate.json").read_text(encoding="utf-8")).files)
    sha256 = json.loads((tmp_path / "other" / "certificate.json").read_text(encoding="utf-8"))["files"][
        "model.onnx"
    ]
    probes = Certificate.from_json((folder / "certificate.json").read_text(encoding="utf-8")).probes
    # a limit that would let anything pass is not believed
    wide = tuple(replace(probe, limit=10.0) for probe in probes)
    _resealed(folder, files={**files, "model.onnx": sha256}, probes=wide)
    found = verify(folder)
    assert found.checks[1].passed  # the hashes agree
    assert not found.passed


def test_model_with_outside_data_or_foreign_operators_is_not_run(folder: Path) -> None:
    path = folder / "model.onnx"
    files = dict(Certificate.from_json((folder / "certificate.json").read_text(encoding="utf-8")).files)
    original = onnx.ModelProto.FromString(path.read_bytes())
    outside, foreign = onnx.ModelProto(), onnx.ModelProto()
    outside.CopyFrom(original)
    foreign.CopyFrom(original)
    tensor = outside.graph.initializer[0]
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../etc/passwd")
    foreign.graph.node[-1].domain = "com.microsoft"
    for model, words in ((outside, "another file"), (foreign, "com.microsoft")):
        path.write_bytes(model.SerializeToString())
        _resealed(folder, files={**files, "model.onnx": hashlib.sha256(path.read_bytes()).hexdigest()})
        check = verify(folder).checks[-1]
        assert not check.passed
        assert words in check.sentence


@pytest.mark.parametrize("name", ["../evil.txt", "/etc/evil", "a/b.txt", "c:\\evil", "folder/"])
def test_names_that_leave_the_bundle_are_refused(exported: Path, tmp_path: Path, name: str) -> None:
    bundle = write_bundle(exported, tmp_path / "a.zip")
    with pytest.raises(UserError, match="plain files only"):
        verify(_rezip(bundle, tmp_path / "evil.zip", {name: b"x"}))


def test_links_bombs_and_junk_are_refused(exported: Path, tmp_path: Path) -> None:
    bundle = write_bundle(exported, tmp_path / "a.zip")
    link = zipfile.ZipInfo("link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    shutil.copy(bundle, tmp_path / "link.zip")
    with zipfile.ZipFile(tmp_path / "link.zip", "a") as archive:
        archive.writestr(link, "/etc/passwd")
    many = _rezip(bundle, tmp_path / "many.zip", {f"f{i}": b"" for i in range(60)})
    for path, words in ((tmp_path / "link.zip", "links"), (many, "a bundle does neither")):
        with pytest.raises(UserError, match=words):
            verify(path)
    (tmp_path / "junk.zip").write_bytes(b"no zip at all")
    (tmp_path / "half.zip").write_bytes(bundle.read_bytes()[:-200])
    for name in ("junk.zip", "half.zip", "absent.zip"):
        with pytest.raises(UserError):
            verify(tmp_path / name)


def test_what_is_no_bundle_is_said_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("cats/1.png", b"x")
    for name in ("folder", "photos.zip"):
        with pytest.raises(
            UserError,
            match=f"{name}' is not a bundle written by export: it has no certificate.json. Give the folder",
        ):
            verify(tmp_path / name)
    with pytest.raises(UserError, match="path is empty"):
        verify("")


def test_symbolic_link_in_a_folder_is_not_followed(folder: Path, tmp_path: Path) -> None:
    shutil.move(folder / "README.md", tmp_path / "README.md")
    (folder / "README.md").symlink_to(tmp_path / "README.md")
    assert not verify(folder).passed


def _leaves(value: object, path: tuple = ()) -> list[tuple]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for key, item in enumerate(value) for leaf in _leaves(item, (*path, key))]
    return [path]


def test_no_value_in_a_certificate_can_crash_the_verification(folder: Path) -> None:
    """Whatever a stranger writes into a certificate and seals, the answer is a verdict or a sentence."""
    path = folder / "certificate.json"
    original = json.loads(path.read_text(encoding="utf-8"))
    rng = np.random.default_rng(0)
    leaves = [
        leaf
        for leaf in _leaves(original)
        if leaf[0] in ("checks", "files", "probes", "sizes", "recipe", "notes")
    ]
    for leaf in [leaves[i] for i in rng.permutation(len(leaves))[:10]] + [
        ("probes", 0, key) for key in ("seed", "n_images", "probs")
    ]:
        for strange in (None, -1, 10**12, "x", [], {"a": 1}, True):
            content = json.loads(json.dumps(original))
            place = content
            for key in leaf[:-1]:
                place = place[key]
            place[leaf[-1]] = strange
            del content["seal"]
            content["seal"] = hashlib.sha256(
                json.dumps(content, sort_keys=True, ensure_ascii=False).encode()
            ).hexdigest()
            path.write_text(json.dumps(content), encoding="utf-8")
            with contextlib.suppress(UserError):
                verify(folder)
