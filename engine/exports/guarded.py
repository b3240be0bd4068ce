"""verify for a stranger's bundle: the whole second look happens in a guarded child, which may not use much.

Knows what travels: a path in, checks out. What is checked is `verification`'s knowledge.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.exports.certificate import Check, plain
from engine.exports.certified import first_images
from engine.exports.verification import Verification, Wanted, bundle_preprocessing, verify
from engine.guard import Child, guarded, limits_for, stage
from engine.target import open_images


def verify_guarded(path: str | Path, wanted: Wanted) -> Verification:
    """Check a bundle as `verify` does, in a child process with limits.

    Raises UserError for what is no bundle, and for one that breaks a limit.
    """
    if not str(path).strip():
        return verify(path)  # says what an empty path needs
    arguments: dict[str, Any] = {
        "path": str(Path(path).absolute()),
        "images": None if wanted.images is None else str(Path(wanted.images).expanduser().absolute()),
        "n_images": wanted.n_images,
        "key": None if wanted.key is None else str(Path(wanted.key).expanduser().absolute()),
    }
    with guarded(
        "engine.exports.guarded:verify_in_child",
        arguments,
        subject=Path(path).name,
        limits=limits_for("verify"),
    ) as outcome:
        found = outcome.result
    return Verification(found["passed"], tuple(Check(**check) for check in found["checks"]), found["recipe"])


def _prepared(path: str, images: str, n_images: int) -> NDArray[np.float32]:
    return first_images(open_images(images), n_images, bundle_preprocessing(path))


def verify_in_child(
    child: Child, path: str, images: str | None, n_images: int, key: str | None
) -> dict[str, Any]:
    """The child's part of `verify_guarded`."""
    stage("reading the bundle")
    prepared = None if images is None else _prepared(path, images, n_images)
    found = verify(path, prepared, key=key)
    return {
        "passed": found.passed,
        "checks": [plain(asdict(check)) for check in found.checks],
        "recipe": found.recipe,
    }
