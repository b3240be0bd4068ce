"""Turn found files into candidates: each is looked into in a guarded process, and what cannot be judged is
listed with its reason.

Knows the parent's side: no stranger's file is opened here.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.family.model_file import ModelFile, Refusal
from engine.foreign.found import IMPORTED, Finding, Found, keep_content
from engine.foreign.inspection import as_json, read_answers
from engine.foreign.session import runtime_version
from engine.guard import EndedError, guarded, limits_for
from engine.teacher.guarded import load_guarded
from engine.teacher.request import LoadRequest
from engine.types import Preprocessing, Progress, UserError

_MOST_LATE = 3  # files that take too long: a folder of them is made to keep us busy
_NOT_TRIED = (
    f"it was not looked into: {_MOST_LATE} files before it took too long. Remove those and start again."
)


@dataclass(frozen=True)
class Question:
    """What is known before the files are opened: the teacher's preprocessing and number of classes (None
    without a teacher), and the output that files with several are to use.
    """

    preprocessing: Preprocessing | None = None
    n_classes: int | None = None
    output: str | None = None


@dataclass(frozen=True)
class Examined:
    """Candidates in the order their files were found, and those refused."""

    models: tuple[ModelFile, ...]
    refused: tuple[Refusal, ...]


def examine_files(
    finding: Finding, question: Question, keep: Path, on_progress: Progress | None = None
) -> Examined:
    """Look into every file; a damaged or hostile one costs itself and one line.

    Models of a framework go through the importers and are judged as the ONNX file that makes, kept in
    `keep`. Raises UserError if no file can be judged.
    """
    answers: dict[str, ModelFile | str] = {}
    ready = [_ready(file, question, keep) for file in finding.files]
    for file, prepared in zip(finding.files, ready, strict=True):
        if isinstance(prepared, str):
            answers[file.name] = prepared
    look = [prepared for prepared in ready if isinstance(prepared, Found)]
    report = on_progress or (lambda done, total: None)
    answers |= _look(look, question, lambda done: report(done, len(look)))
    _refuse_other_classes(answers, question.n_classes)
    refused = [*finding.refused]
    refused += [Refusal(f.name, a) for f in finding.files if isinstance(a := answers[f.name], str)]
    models = tuple(m for f in finding.files if isinstance(m := answers[f.name], ModelFile))
    if not models:
        first = refused[0]
        raise UserError(f"none of the {len(refused)} files can be judged, e.g. {first.name}: {first.reason}")
    return Examined(models, tuple(refused))


def _ready(file: Found, question: Question, keep: Path) -> Found | str:
    """Return the file to look into, an imported model as ONNX; or why there is none."""
    suffix = file.path.suffix.lower()
    try:
        if suffix == ".tflite":
            runtime_version("litert")
        if suffix not in IMPORTED:
            return file
        base = question.preprocessing
        size = None if base is None else (base.height, base.width)
        teacher = _import(file.path, size)
    except UserError as error:
        return str(error)
    return replace(file, path=keep_content([teacher], ".onnx", keep))


def _import(path: Path, size: tuple[int, int] | None) -> bytes:
    try:
        return load_guarded(LoadRequest(spec=str(path))).graph
    except EndedError:
        raise  # once more would end in the same way
    except UserError:
        if size is None:
            raise
    return load_guarded(
        LoadRequest(spec=str(path), size=size)
    ).graph  # it leaves the size open, or takes several


def _look(
    files: Sequence[Found], question: Question, on_file: Callable[[int], None]
) -> dict[str, ModelFile | str]:
    """Look into files in one child; if it dies, the file it was at is to blame, and another child goes on
    behind it.
    """
    answers: dict[str, ModelFile | str] = {}
    n_late = 0
    while len(answers) < len(files):
        rest = files[len(answers) :]
        if n_late == _MOST_LATE:
            return answers | dict.fromkeys((file.name for file in rest), _NOT_TRIED)

        def went_on(done: int, before: int = len(answers)) -> None:
            on_file(before + done)

        found, why = _until_one_dies(rest, question, went_on)
        answers |= dict(zip((file.name for file in rest), found, strict=False))
        if why is not None:
            answers[rest[len(found)].name] = str(why)
            n_late += why.is_late
    return answers


def _until_one_dies(
    files: Sequence[Found], question: Question, on_file: Callable[[int], None]
) -> tuple[list[ModelFile | str], EndedError | None]:
    """Return what one child found out about the leading files, and what ended it at the next one; None if it
    went through all of them.
    """

    def heard(stage: str, done: int, total: int) -> None:
        if total:
            on_file(done)

    base = question.preprocessing
    with tempfile.TemporaryDirectory() as place:  # answers outlive the child that gave them
        arguments = {
            "files": [as_json(file) for file in files],
            "preprocessing": None if base is None else base.to_json(),
            "output": question.output,
            "place": place,
        }
        task = "engine.foreign.inspection:inspect_in_child"
        why: EndedError | None = None
        try:
            with guarded(task, arguments, subject="the file", limits=limits_for("import"), on_report=heard):
                pass
        except EndedError as error:
            why = error
        found = read_answers(Path(place))[: len(files) - (why is not None)]
    return found, why


def _refuse_other_classes(answers: dict[str, ModelFile | str], n_classes: int | None) -> None:
    """Refuse files that know another number of classes than the teacher, or than most files."""
    models = [model for model in answers.values() if isinstance(model, ModelFile)]
    if not models:
        return
    counts = Counter(model.output.n_classes for model in models)
    wanted = n_classes or max(counts, key=lambda count: (counts[count], -count))
    others = "the teacher" if n_classes else "most of the files"
    for model in models:
        if model.output.n_classes != wanted:
            answers[model.name] = (
                f"it knows {model.output.n_classes} classes, {others} {wanted}. Leave it out, or judge it"
                " apart."
            )
