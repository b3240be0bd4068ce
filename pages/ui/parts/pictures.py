"""Small pictures of pool images, each made once: a page of thumbnails must not decode its files on every
click.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pages.ui.session.state import Session
from pages.ui.workspace.images import thumbnail

_KEPT = 400  # pictures of one session in memory: a few pages of them


def picture_of(session: Session, row: int, side: int) -> NDArray[np.uint8]:
    """Return a pool image as a small picture."""
    shelf: dict[tuple[int, int], NDArray[np.uint8]] = session.keep("pictures", session.target_key, dict)
    if (row, side) not in shelf:
        if len(shelf) >= _KEPT:
            shelf.pop(next(iter(shelf)))
        shelf[row, side] = thumbnail(session.images, session.order[row], side)
    return shelf[row, side]
