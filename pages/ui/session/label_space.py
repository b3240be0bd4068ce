"""What a session's labels may refer to: rows, class numbers, class names and image names. Draws nothing."""

from __future__ import annotations

from engine.target.labels import LabelSpace
from pages.ui.session.state import Session


def space_of(session: Session) -> LabelSpace:
    """What labels may refer to: the predictions' rows, or before the run the images in pool order."""
    predictions = session.predictions
    if predictions is not None:
        files = predictions.files or (session.pool_files if session.has_images else None)
        return LabelSpace(
            n_rows=predictions.n_images,
            n_classes=predictions.n_classes,
            class_names=session.class_names,
            files=files,
        )
    return LabelSpace(
        n_rows=len(session.order),
        n_classes=len(session.class_names),
        class_names=session.class_names,
        files=session.pool_files,
    )
