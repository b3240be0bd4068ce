"""A detached Ed25519 signature over certificate.json, so that a team can tell its own bundles from forged
ones.

Knows keys and signatures. The certificate states every file's hash, so that signing it signs the bundle.
`openssl` makes the keys and can check the signature without Anchorpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.exports.bundle import Bundle
from engine.exports.certificate import Check
from engine.exports.place import CERTIFICATE, SIGNATURE
from engine.files.whole_file import whole_file
from engine.types import UserError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_MAX_KEY_BYTES = 64_000
_SIGNATURE_BYTES = 64
_MAKE = (
    "Make a pair with: openssl genpkey -algorithm ed25519 -out key.pem; openssl pkey -in key.pem -pubout -out"
    " key.pub"
)


def private_key(path: str | Path) -> Ed25519PrivateKey:
    """Read a private key (PEM, without a password); raise UserError if it is none."""
    return _key(path, private=True)  # type: ignore[no-any-return]


def sign(folder: str | Path, key: Ed25519PrivateKey) -> Path:
    """Write the signature beside the folder's certificate and return its path."""
    content = (Path(folder) / CERTIFICATE).read_bytes()
    path = Path(folder) / SIGNATURE
    with whole_file(path) as file:
        file.write(key.sign(content))
    return path


def check_signature(bundle: Bundle, key: str | Path) -> Check:
    """Check the bundle's signature with a public key (PEM); raise UserError if that is no key."""
    public: Ed25519PublicKey = _key(key, private=False)
    from cryptography.exceptions import InvalidSignature

    if SIGNATURE not in bundle.sizes:
        return _check(False, "The bundle is not signed; it may come from anybody.")
    if bundle.sizes[SIGNATURE] != _SIGNATURE_BYTES:
        return _check(
            False, f"{SIGNATURE} is not an Ed25519 signature: it does not have {_SIGNATURE_BYTES} bytes."
        )
    try:
        public.verify(bundle.read(SIGNATURE), bundle.read(CERTIFICATE))
    except InvalidSignature:
        return _check(
            False,
            f"The signature does not belong to {Path(key).name}: another key, or an edited certificate.",
        )
    return _check(True, f"The certificate was signed with the key that belongs to {Path(key).name}.")


def _check(passed: bool, sentence: str) -> Check:
    return Check(name="signature", passed=passed, value=None, limit=None, sentence=sentence)


def _key(path: str | Path, *, private: bool) -> Any:
    kind = "private" if private else "public"
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    except ModuleNotFoundError:
        raise UserError(
            "signatures need the package cryptography, which is not installed.",
            "Run: pip install 'anchorpoint[sign]'",
        ) from None
    wanted = Ed25519PrivateKey if private else Ed25519PublicKey
    try:
        if Path(path).stat().st_size > _MAX_KEY_BYTES or not Path(path).is_file():
            raise ValueError("too large, or a pipe that would keep us waiting")
        content = Path(path).read_bytes()
        key: Any = (
            serialization.load_pem_private_key(content, None)
            if private
            else serialization.load_pem_public_key(content)
        )
    except OSError as error:
        raise UserError(
            f"the key {str(path)!r} cannot be read ({error.strerror}).", "Give its path."
        ) from None
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UserError(
            f"{str(path)!r} is not a {kind} key in PEM form without a password.", f"{_MAKE}"
        ) from None
    if not isinstance(key, wanted):
        raise UserError(f"{str(path)!r} is not an Ed25519 {kind} key.", f"{_MAKE}")
    return key
