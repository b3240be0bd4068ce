"""The parts of the Teacher page: the samples to start with, and what a person may state or correct about a
model.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Literal, get_args, get_type_hints

import streamlit as st

from engine.samples import SAMPLES
from engine.teacher.facts import facts_of
from engine.teacher.presets import PRESETS, apply_preset, is_about_preprocessing
from engine.teacher.request import Layout, LoadRequest, parse_size
from engine.types import Preprocessing, TeacherFacts, UserError
from pages.ui.parts.page import user_errors
from pages.ui.parts.projects import load_with_care
from pages.ui.session.actions import as_read, open_sample
from pages.ui.session.record import Step
from pages.ui.session.state import Session
from pages.ui.show.words import ARCHITECTURE, CHANNELS, CLASSES, LAYOUT, SIZE, counted
from pages.ui.workspace.folder import write_json

_CHANNELS: tuple[Literal[1, 3] | None, ...] = (None, 1, 3)
_OWN = "As the file was read"
_BY_HAND = "The preprocessing was set by hand."


def sample_cards(session: Session) -> None:
    """One card a sample; the first is the one to begin with."""
    samples = list(SAMPLES.values())
    for start in range(0, len(samples), 3):  # a row at a time, so that cards of a row are equally high
        for column, sample in zip(st.columns(3, gap="small"), samples[start : start + 3], strict=False):
            with column.container(border=True, height="stretch", vertical_alignment="distribute"):
                with st.container(gap="xsmall"):
                    st.markdown(f"**{sample.title}**")
                    st.caption(sample.description)
                if st.button(
                    "Start with this",
                    key=f"sample-{sample.name}",
                    type="primary" if sample is samples[0] else "secondary",
                ):
                    with user_errors():
                        load_with_care(session, partial(open_sample, session, sample.name))


def input_fields(key: str) -> LoadRequest:
    """The shape of the input, for models that leave it open or take several."""
    columns = st.columns(3)
    size = columns[0].text_input(
        SIZE.strip("“”"),
        key=f"{key}-size",
        placeholder="96 or 48x192",
        help=(
            "Height x width in pixels, for a model that takes several sizes or was fine-tuned at another one."
            " Empty: what the model says."
        ),
    )
    channels = columns[1].selectbox(
        CHANNELS.strip("“”"), _CHANNELS, key=f"{key}-channels", format_func=_channel_words
    )
    layout = columns[2].selectbox(
        LAYOUT.strip("“”"), (None, *get_args(Layout)), key=f"{key}-layout", format_func=_or_the_models
    )
    return LoadRequest(size=parse_size(size) if size.strip() else None, channels=channels, layout=layout)


def _channel_words(channels: int | None) -> str:
    return {1: "1, grey", 3: "3, colour"}.get(channels or 0, _or_the_models(None))


def _or_the_models(value: str | None) -> str:
    return value or "as the model says"


def model_facts(key: str) -> LoadRequest:
    """What a file may not say about itself."""
    with st.expander("For bare weights (.safetensors, .pth), an open input size, and class names"):
        arch = st.text_input(
            ARCHITECTURE.strip("“”"),
            key=f"{key}-arch",
            help="Only for weights without a graph, e.g. resnet18.",
        )
        classes = st.number_input(CLASSES.strip("“”"), min_value=2, value=None, step=1, key=f"{key}-classes")
        shape = input_fields(key)
        names = st.text_area("Class names, one per line, in the order of the outputs", key=f"{key}-names")
    return replace(
        shape,
        arch=arch.strip() or None,
        classes=classes,
        class_names=tuple(line.strip() for line in names.splitlines() if line.strip()) or None,
    )


def preprocessing_form(session: Session, teacher: TeacherFacts) -> None:
    """Show the preprocessing and the class names, and store what the person changes; predictions made before
    are forgotten.
    """
    preset_field(session, teacher)
    pre = teacher.preprocessing
    is_open = as_read(session).get("size_is_open") is True
    hints = get_type_hints(Preprocessing)
    with st.form("preprocessing", border=False):
        st.caption(
            f"Input: {pre.height} × {pre.width}, {counted(pre.channels, 'channel')}, {pre.layout}. Pixels"
            " from 0 to 255 are multiplied by the scale; then the mean is subtracted and the result divided"
            " by the std."
        )
        left, right = st.columns(2)
        size = left.text_input(
            "Input size, height x width",
            f"{pre.height}x{pre.width}",
            disabled=not is_open,
            help="This model takes several sizes." if is_open else "The model's file fixes its size.",
        )
        names = right.text_area("Class names, one per line", "\n".join(teacher.class_names), height=120)
        resize = left.number_input(
            "Resize the shorter side to (empty: squash to the input size)",
            value=pre.resize,
            min_value=1,
            step=1,
        )
        interpolations = list(get_args(hints["interpolation"]))
        interpolation = right.selectbox(
            "Interpolation", interpolations, index=interpolations.index(pre.interpolation)
        )
        scale = left.text_input("Scale", repr(pre.scale))
        order = right.selectbox(
            "Channel order", ["RGB", "BGR"], index=["RGB", "BGR"].index(pre.order), disabled=pre.channels == 1
        )
        mean = left.text_input("Mean, one number per channel", ", ".join(map(repr, pre.mean)))
        std = right.text_input("Std, one number per channel", ", ".join(map(repr, pre.std)))
        if st.form_submit_button("Apply"):
            numbers = {
                "scale": _numbers("scale", scale)[0],
                "mean": _numbers("mean", mean),
                "std": _numbers("std", std),
            }
            stated: dict[str, Any] = {"interpolation": interpolation, "order": order, **numbers}
            height, width = parse_size(size) if is_open else (pre.height, pre.width)
            edited = replace(pre, height=height, width=width, resize=resize, **stated)
            store_facts(
                session, teacher, edited, tuple(line.strip() for line in names.splitlines() if line.strip())
            )
            st.rerun()


def preset_field(session: Session, teacher: TeacherFacts) -> None:
    """The usual preprocessings by name, and the file's own: one click instead of six numbers."""
    given = teacher.preprocessing
    offered = {preset.title: apply_preset(given, name) for name, preset in PRESETS.items()}
    if own := as_read(session).get("preprocessing"):
        offered[_OWN] = Preprocessing.from_json(own)
    titles = list(offered)
    current = next((title for title in (_OWN, *titles) if offered.get(title) == given), None)
    wanted = st.selectbox(
        "Preset",
        titles,
        index=None if current is None else titles.index(current),
        placeholder="numbers of its own",
        key=f"preset-{current}",
    )
    if wanted is not None and wanted != current:
        store_facts(session, teacher, offered[wanted], teacher.class_names)
        st.rerun()


def store_facts(
    session: Session, teacher: TeacherFacts, preprocessing: Preprocessing, class_names: tuple[str, ...]
) -> None:
    """Keep edited facts in the outline. New preprocessing makes earlier predictions void; new names do
    not.
    """
    if len(class_names) != teacher.n_classes:
        raise UserError(
            f"{counted(len(class_names), 'class name was', 'class names were')} given; the model has"
            f" {teacher.n_classes} classes. Give one"
            " name per line."
        )
    notes = teacher.notes
    if preprocessing != teacher.preprocessing:
        notes = (*(note for note in notes if not is_about_preprocessing(note) and note != _BY_HAND), _BY_HAND)
    edited = replace(teacher, preprocessing=preprocessing, class_names=class_names, notes=notes)
    write_json(session.folder / "outline.json", facts_of(edited))
    if preprocessing != teacher.preprocessing:
        session.change(keep=Step.LABELS, is_edited=True)


def _numbers(name: str, text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.replace(";", ",").split(",") if part.strip())
    except ValueError:
        raise UserError(
            f"{name} is {text!r}; numbers separated by commas are needed, e.g. 0.485, 0.456, 0.406."
        ) from None
