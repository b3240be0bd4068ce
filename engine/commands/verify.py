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


def run(args: argparse.Namespace) -> dict[str, Any]:
    from engine.exports.certified import first_images
    from engine.exports.verification import bundle_preprocessing, verify
    from engine.target import open_images

    if args.n_images < 1:
        raise UserError(f"--n-images is {args.n_images}; give at least 1.")
    images = (
        first_images(open_images(args.images), args.n_images, bundle_preprocessing(args.bundle))
        if args.images
        else None
    )
    found = verify(args.bundle, images)
    return {
        "bundle": str(args.bundle),
        "recipe": found.recipe,
        "passed": found.passed,
        "failed": not found.passed,
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
