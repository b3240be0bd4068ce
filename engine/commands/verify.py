"""`verify`: check a bundle's hashes and run its model again; exit code 2 if anything differs."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from engine.types import UserError

HELP = "check an exported bundle again: hashes, and outputs on this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", help="folder or .zip written by `export`")
    parser.add_argument("--images", help="images the certificate was made with: folder, .zip, .npy or .npz")
    parser.add_argument("--n-images", type=int, default=1000, help="how many of them to read")
    parser.add_argument("--key", help="Ed25519 public key (PEM) that must have signed the certificate")


def run(args: argparse.Namespace) -> dict[str, Any]:
    from engine.exports.foreign import is_file_export, verify_file
    from engine.exports.guarded import verify_guarded
    from engine.exports.verification import Wanted

    if args.n_images < 1:
        raise UserError(f"--n-images is {args.n_images}; give at least 1.")
    if is_file_export(args.bundle):
        found = verify_file(args.bundle)
    else:
        found = verify_guarded(args.bundle, Wanted(args.images, args.n_images, args.key))
    wrong = next((check for check in found.checks if not check.passed), None)
    return {
        "bundle": str(args.bundle),
        "recipe": found.recipe,
        "passed": found.passed,
        "failed": not found.passed,
        "reason": None if wrong is None else f"{args.bundle} is not verified: {wrong.name}. {wrong.sentence}",
        "checks": [asdict(check) for check in found.checks],
    }


def summary(result: dict[str, Any]) -> str:
    verdict = "verified" if result["passed"] else "NOT verified"
    lines = [f"{result['bundle']}: {result['recipe'] or 'unknown candidate'}, {verdict}."]
    return "\n".join(
        [
            *lines,
            *(
                f"{'ok' if check['passed'] else 'FAILED':<7}{check['name']}: {check['sentence']}"
                for check in result["checks"]
            ),
        ]
    )
