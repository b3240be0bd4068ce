"""The parts of the Target page: where images and labels come from, what is odd about them, and starting the
run.
"""

from __future__ import annotations

import streamlit as st

from engine.recommend.advice import FEW_LABELS
from engine.types import UNLABELED
from pages.ui.jobs.control import Job
from pages.ui.parts.label_import import folder_problem
from pages.ui.parts.labeling import conflicts
from pages.ui.parts.page import link, picture, plain, user_errors
from pages.ui.session.actions import (
    run_family,
    upload_images,
    use_images,
    use_sample_images,
    use_shipped,
)
from pages.ui.session.model_files import n_candidates
from pages.ui.session.state import Session
from pages.ui.session.studying import known_labels, send_to_study
from pages.ui.show.charts import class_bars
from pages.ui.show.many_classes import ENDS, both_ends
from pages.ui.show.tables import class_counts
from pages.ui.show.words import counted, listed
from pages.ui.workspace.images import thumbnail
from pages.ui.workspace.weighing import is_large

_THUMBNAILS = 20
_IMAGE_TYPES = ["zip", "npy", "npz", "jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff"]


def summary(session: Session) -> None:
    """The answer first: how many images, how many labels, and whether that is enough."""
    n, predictions = len(session.rows), session.predictions
    images = predictions.n_images if predictions else len(session.order) if session.has_images else 0
    classes = len(set(session.labels))
    with st.container(border=True):
        if not images:
            st.markdown(
                "**No target images yet.** A few hundred without labels and about"
                f" {FEW_LABELS} with labels make a sound decision."
            )
            return
        st.markdown(
            f"**{counted(images, 'target image')}**, **{counted(n, 'label')}**"
            + (f" over {counted(classes, 'class', 'classes')}." if n else ".")
        )
        if n == 0:
            st.markdown(
                ":material/help: Without labels the teacher is followed blindly. Ten labels already help."
            )
        elif n < FEW_LABELS:
            few = counted(n, "label is too few", "labels are few")
            st.markdown(f":material/help: {few}: the pick could change with other images.")
        if images < 100:
            few = counted(images, "image is too few", "images are few")
            st.markdown(f":material/help: {few} for the part that needs no labels; a few hundred are better.")


def image_source(session: Session) -> None:
    """Upload, a path on the server, or the sample's own images."""
    upload, path, sample = st.tabs(["Upload", "Folder or zip on the server", "Sample"])
    with upload, user_errors():
        limits = session.host.limits
        st.caption(
            f"A zip, many image files, or an .npy / .npz array. At most {limits.files:,} images of"
            f" {limits.file_bytes // 10**6} MB and {limits.pixels // 10**6} megapixels each."
        )
        files = st.file_uploader("Images", type=_IMAGE_TYPES, accept_multiple_files=True, key="image-files")
        if st.button("Use these images", disabled=not files):
            upload_images(session, files)
            st.rerun()
    with path, user_errors():
        where = st.text_input(
            "Path of a folder, .zip, .npy or .npz",
            disabled=not session.host.allows_server_paths,
            help="Read where it is: nothing is copied.",
        )
        if st.button("Use this path", disabled=not session.host.allows_server_paths):
            use_images(session, where)
            st.rerun()
    with sample, user_errors():
        st.caption("The handwritten digits that come with the digit samples.")
        if st.button("Use the sample images", disabled=not session.record.sample):
            use_sample_images(session)
            st.rerun()


def checks_box(session: Session) -> None:
    """What was found wrong or odd with the images."""
    checks = session.checks
    if checks is None:
        return
    sizes = " × ".join(
        f"{low}" if low == high else f"{low}–{high}" for low, high in (checks["heights"], checks["widths"])
    )
    st.caption(f"{counted(checks['n_images'], 'image')} looked at; height × width {sizes} pixels.")
    for note in checks["notes"]:
        st.caption(plain(note))
    if problem := folder_problem(session):
        st.warning(plain(problem), icon=":material/warning:")
    if checks["n_bad"]:
        with st.expander(
            f"{counted(checks['n_bad'], 'image')} cannot be read and will be left out",
            icon=":material/warning:",
        ):
            for name, reason in checks["bad"]:
                st.text(f"{name}: {reason}")
    if checks["n_duplicates"]:
        with st.expander(
            f"{counted(checks['n_duplicates'], 'image repeats', 'images repeat')} another one, byte for byte",
            icon=":material/content_copy:",
        ):
            st.caption(
                "Duplicates count more than once in the pool. Remove them if they are not really that"
                " frequent."
            )
            for group in checks["duplicates"]:
                st.text(" = ".join(group))


def thumbnails(session: Session) -> None:
    """The first images of the pool, with their labels."""
    labels = session.book.labeled
    rows = [*labels][:_THUMBNAILS] + [row for row in range(len(session.order)) if row not in labels]
    rows = rows[: min(_THUMBNAILS, len(session.order))]
    pictures = session.keep(
        "thumbnails",
        (session.target_key, tuple(rows)),
        lambda: [thumbnail(session.images, session.order[row], 72) for row in rows],
    )
    captions = [
        f"label: {plain(session.class_names[labels[row]])}" if row in labels else "not labeled"
        for row in rows
    ]
    with st.container(horizontal=True, gap="small"):
        for shown, caption in zip(pictures, captions, strict=True):
            st.image(shown, caption=caption, width=72, alt=f"pool image, {caption}")


def class_balance(session: Session) -> None:
    """Labels per class, with a word on what is missing."""
    if not session.rows:
        return
    counts = class_counts(session.labels, session.class_names)
    empty = list(counts[counts["labels"] == 0]["class"])
    which = "class" if len(empty) == 1 else "classes"
    title = f"No label yet for {which} {plain(listed(empty))}" if empty else "Every class has a label"
    shown = both_ends(counts)
    cut = len(shown) < len(counts)
    note = f"The {ENDS} classes with the most labels and the {ENDS} with the fewest." if cut else ""
    picture(title, class_bars(shown), note)
    for names in conflicts(session):
        st.warning(
            f"Identical images have different labels: {plain(names)}. One of them is wrong.",
            icon=":material/warning:",
        )


def run_box(session: Session, job: Job | None) -> None:
    """Start the run, say what it will do, or offer the shipped predictions."""
    record = session.record
    n = n_candidates(session)
    if record.uses_shipped_predictions:
        st.caption(
            f"The predictions shown are those that ship with the sample. Running the family computes all {n}"
            " candidates here, on this machine."
        )
        if st.button("Run it yourself", icon=":material/play_arrow:"):
            run_family(session)
            st.rerun()
        return
    if session.predictions is not None:
        missing = session.predictions.missing
        st.success(
            f"Done: {counted(session.predictions.n_candidates, 'candidate')} on"
            f" {counted(session.predictions.n_images, 'image')}."
            + (f" Left out: {listed(list(missing))}." if missing else ""),
            icon=":material/check_circle:",
        )
        take_away(session)
    elif job is None or job.state in ("failed", "done"):
        st.caption(
            f"Teacher and {counted(n, 'candidate')} over {counted(len(session.order), 'image')}. It goes on"
            " if you close this page, and continues where it stopped."
        )
        if st.button("Run the family", type="primary", icon=":material/play_arrow:"):
            run_family(session)
            st.rerun()
    if record.sample and record.is_live and st.button("Back to the shipped predictions", type="tertiary"):
        use_shipped(session)
        st.rerun()


def take_away(session: Session) -> None:
    """The finished run as a file, and the way to a study of it."""
    path = session.folder / "predictions.npz"
    if not path.exists():
        return
    with st.container(horizontal=True):
        st.download_button(
            "Download the predictions",
            path.read_bytes,
            "predictions.npz",
            key="get-predictions",
            icon=":material/download:",
            on_click="ignore",
        )
        to_study(session)


def to_study(session: Session) -> None:
    """One click to a study of the run, or what it still needs; families too large to hold are left out."""
    predictions = session.require_predictions()
    if predictions.has_test:
        link("study", "Study this family")
        return
    missing = int((known_labels(session) == UNLABELED).sum())
    if missing:
        none = counted(missing, "image has none yet", "images have none yet")
        st.caption(f"A study of this run needs a label for every image; {none}.", width="content")
    elif not is_large(predictions) and st.button(
        "Study this family",
        icon=":material/science:",
        help="Half of the images are held out as its test part.",
    ):
        with user_errors():
            send_to_study(session)
            st.switch_page("pages/study.py")
