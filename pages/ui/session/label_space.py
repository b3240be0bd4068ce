"""What a session's labels may refer to: rows, class numbers, class names and image names. Draws nothing."""

from __future__ import annotations

from engine.target.labels import LabelSpace
from pages.ui.session.state import Session


def space_of(session: Session) -> LabelSpace:
    """What labels may refer to: the predictions' rows, or before the run the images in pool order."""
    predictions = session.predictions
    if predictions is not None:
        files = predictions.files or (session.pool_files if session.has_images else None)
        return LabelSpace(predictions.n_images, predictions.n_classes, session.class_names, files)
    return LabelSpace(len(session.order), len(session.class_names), session.class_names, session.pool_files)
