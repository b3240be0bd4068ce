"""A signed certificate: `openssl` is the oracle, a forged bundle fails, and a key that is none is said."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from engine.exports.bundle import write_bundle
from engine.exports.signature import private_key, sign
from engine.exports.verification import verify
from engine.exports.writing import write
from engine.types import Recipe, UserError
from tests.tiny_teacher import tiny_teacher


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours", "theirs"):
        key = Ed25519PrivateKey.generate()
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (folder / f"{name}.pem").write_bytes(private)
        (folder / f"{name}.pub").write_bytes(public)
    return folder


@pytest.fixture
def signed(tmp_path: Path, keys: Path) -> Path:
    write(tiny_teacher(), Recipe(4, 100.0, "channel", False), tmp_path / "out", profiles=False)
    sign(tmp_path / "out", private_key(keys / "ours.pem"))
    return tmp_path / "out"


def test_our_key_passes_in_a_folder_and_in_a_zip_and_another_fails(signed: Path, keys: Path) -> None:
    for path in (signed, write_bundle(signed, signed.with_suffix(".zip"))):
        assert verify(path, key=keys / "ours.pub").passed
        assert verify(path).passed
        found = verify(path, key=keys / "theirs.pub")
        assert not found.passed
        assert [check.name for check in found.checks] == ["signature"]  # and nothing of it is run


def test_a_bundle_without_or_with_a_damaged_signature_fails(signed: Path, keys: Path) -> None:
    (signed / "certificate.sig").write_bytes(b"short")
    assert "64 bytes" in verify(signed, key=keys / "ours.pub").checks[0].sentence
    (signed / "certificate.sig").unlink()
    assert "not signed" in verify(signed, key=keys / "ours.pub").checks[0].sentence


def test_an_edited_certificate_no_longer_has_our_signature(signed: Path, keys: Path) -> None:
    path = signed / "certificate.json"
    path.write_bytes(path.read_bytes() + b" ")
    assert verify(signed).passed  # a blank more is the same certificate, but not the one that was signed
    assert not verify(signed, key=keys / "ours.pub").passed


def test_a_new_export_leaves_no_old_signature(signed: Path) -> None:
    write(tiny_teacher(), Recipe(8, 100.0, "channel", False), signed, profiles=False)
    assert not (signed / "certificate.sig").exists()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, 2026-11-16")
def test_openssl_agrees(signed: Path, keys: Path) -> None:
    for name, code in (("ours", 0), ("theirs", 1)):
        files = ("-in", str(signed / "certificate.json"), "-sigfile", str(signed / "certificate.sig"))
        key = ("-pubin", "-inkey", str(keys / f"{name}.pub"))
        check = subprocess.run(["openssl", "pkeyutl", "-verify", "-rawin", *key, *files], capture_output=True)
        assert check.returncode == code


def test_what_is_no_key_is_refused_with_how_to_make_one(tmp_path: Path, keys: Path) -> None:
    (tmp_path / "text.pem").write_text("not a key")
    (tmp_path / "large.pem").write_bytes(bytes(100_000))
    for name in (tmp_path / "text.pem", tmp_path / "large.pem", keys / "ours.pub"):
        with pytest.raises(UserError, match="openssl genpkey"):
            private_key(name)
    with pytest.raises(UserError, match="cannot be read"):
        private_key(tmp_path / "missing.pem")
