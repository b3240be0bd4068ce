"""The decision in brief: everything a person who signs it off should read of one candidate, as plain data and
in sentences.

Knows what is said and how. How it is found is `briefing`'s; knows no file and no layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.decide.limits import Limits
from engine.decide.titles import rule_title
from engine.diagnose.comparison import Interval
from engine.types import Preprocessing
from engine.words import counted

NO_CONCERN = "Nothing that was looked at speaks against it."
_MEASURES = (
    *("right on the labels", "loss in nats ↓", "same class as the teacher", "weights ↓", "time per image ↓"),
    "as good as the best",
)
SOURCES = {
    "typed": "typed in the app",
    "corrected": "corrected in the app",
    "csv": "from a CSV file",
    "folder": "from class folders",
    "file": "from the predictions file",
}


@dataclass(frozen=True)
class LabelOrigin:
    """Where labels come from: how many of each source, who gave them, on how many images people differ."""

    sources: Mapping[str, int] = field(default_factory=dict)
    people: tuple[str, ...] = ()
    disputed: int = 0


@dataclass(frozen=True)
class Standing:
    """What is known of one model. None: not measured, or (probability) the rule does not say."""

    name: str
    accuracy: Interval | None = None
    loss: Interval | None = None
    agreement: float | None = None  # share of the pool on which it gives the teacher's class
    memory: float | None = None  # weights, relative to the float teacher's
    latency: float | None = None  # time for an image, relative to the float teacher's
    probability: float | None = None  # that it is as good as the best candidate


@dataclass(frozen=True)
class Dot:
    """One candidate in the picture: memory across, accuracy (or agreement) up."""

    name: str
    memory: float
    height: float


@dataclass(frozen=True)
class Brief:
    """The decision for reading. `recommended` is the rule's pick where another candidate was taken."""

    verdict: str
    is_firm: bool  # nothing known keeps it from being deployed
    teacher: Standing
    pick: Standing
    method: str
    n_candidates: int
    n_admissible: int
    n_images: int
    n_labels: int
    n_classes: int
    n_classes_labeled: int
    trust: str
    origin: LabelOrigin
    concerns: tuple[str, ...]
    sign_off: str = ""  # the gate's sentence, where there are labels to ask it with
    recommended: Standing | None = None
    limits: Limits = field(default_factory=Limits)
    preprocessing: str = ""
    whole: str = "float"  # what memory is a share of; without a float teacher, the file it is compared with
    dots: tuple[Dot, ...] = ()
    title: str = ""
    made: str = ""  # when, in UTC


def overrides_words(taken: Standing, recommended: Standing) -> str:
    """Say that a candidate was taken in another one's place, and how likely each is to be as good as the
    best.

    >>> overrides_words(Standing(name="b"), Standing(name="a", probability=0.93))
    'b overrides the recommendation a (p = 0.93)'
    """
    told = "" if recommended.probability is None else f" (p = {recommended.probability:.2f})"
    own = "" if taken.probability is None else f"; its own p is {taken.probability:.2f}"
    return f"{taken.name} overrides the recommendation {recommended.name}{told}{own}"


def preprocessing_words(given: Preprocessing) -> str:
    """Say how an image becomes the model's input.

    >>> preprocessing_words(Preprocessing(8, 8, channels=1, mean=(0.0,), std=(1.0,), scale=0.5))
    'Images are squashed to 8 x 8 (bilinear), 1 channel, NCHW; pixels 0..255 times 0.5, less 0, divided by 1.'
    """
    fit = (
        "squashed to"
        if given.resize is None
        else f"resized until the shorter side has {given.resize} pixels, then cropped at the centre to"
    )
    colours = "1 channel" if given.channels == 1 else f"3 channels ({given.order})"
    return (
        f"Images are {fit} {given.height} x {given.width} ({given.interpolation}), {colours}, {given.layout};"
        f" pixels 0..255 times {given.scale:.6g}, less {_list(given.mean)}, divided by {_list(given.std)}."
    )


def _list(values: tuple[float, ...]) -> str:
    return f"{values[0]:.6g}" if len(values) == 1 else f"({', '.join(f'{value:.6g}' for value in values)})"


@dataclass(frozen=True)
class Table:
    """Measures down, models across: two or three columns fit a phone."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def table_of(brief: Brief) -> Table:
    """Return the numbers of teacher, pick and (where it was overridden) the recommended candidate, with a
    measure in the first column.
    """
    columns = {f"teacher: {brief.teacher.name}": _teacher_cells(brief)}
    columns[f"taken: {brief.pick.name}"] = _cells(brief.pick, brief.whole)
    if brief.recommended is not None:
        columns[f"recommended: {brief.recommended.name}"] = _cells(brief.recommended, brief.whole)
    return Table(heads=("", *columns), rows=tuple(zip(_MEASURES, *columns.values(), strict=True)))


def _teacher_cells(brief: Brief) -> tuple[str, ...]:
    """The teacher is what candidates are a share of; what stands in for one takes nothing itself."""
    whole, teacher = "100 %" if brief.whole == "float" else "–", brief.teacher
    quality = (_interval(teacher.accuracy, percent=True), _interval(teacher.loss))
    return (*quality, "100 %", whole, whole, "–")


def _cells(standing: Standing, whole: str) -> tuple[str, ...]:
    return (
        _interval(standing.accuracy, percent=True),
        _interval(standing.loss),
        _percent(standing.agreement),
        _of(standing.memory, f"of {whole}"),
        _of(standing.latency, "of the teacher's"),
        "–" if standing.probability is None else f"{100 * standing.probability:.0f} %",
    )


def _interval(value: Interval | None, *, percent: bool = False) -> str:
    if value is None:
        return "–"
    if percent:
        return f"{100 * value.value:.1f} % ({100 * value.low:.0f} to {100 * value.high:.0f} %)"
    return f"{value.value:.3f} ({value.low:.3f} to {value.high:.3f})"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _of(value: float | None, what: str) -> str:
    return "not measured" if value is None else f"{100 * value:.1f} % {what}"


def compared_words(brief: Brief) -> str:
    """Say what was compared: how many candidates, by which rule, on how many images and labels."""
    words = f"{counted(brief.n_candidates, 'candidate')} on {counted(brief.n_images, 'image')} of the target"
    if allowed := brief.limits.in_words(brief.whole):
        words += f", of which {counted(brief.n_admissible, 'stays', 'stay')} within {' and '.join(allowed)}"
    rule = f" They were ranked by {rule_title(brief.method)}." if brief.method else ""
    return f"{words}.{rule}"


def label_words(brief: Brief) -> str:
    """Say how many labels there are, of how many classes, from whom, and how far they can be trusted."""
    if not brief.n_labels:
        return brief.trust
    seen, known = brief.n_classes_labeled, brief.n_classes
    of_classes = (
        f"all {known} classes" if seen == known else f"{seen} of the {counted(known, 'class', 'classes')}"
    )
    words = f"{counted(brief.n_labels, 'label')} of {of_classes}"
    sources = [f"{n} {SOURCES.get(source, source)}" for source, n in brief.origin.sources.items() if n]
    words += f" ({', '.join(sources)})" if sources else ""
    people = f" Given by {', '.join(brief.origin.people)}." if brief.origin.people else ""
    return f"{words}.{people} {brief.trust}"
