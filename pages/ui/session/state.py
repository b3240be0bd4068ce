"""The one Session: what this visitor has done so far, kept in a folder on disk and named in the address bar.

The only file that touches `st.session_state`. Derived results live in memory and are computed once per change
of their inputs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import streamlit as st

from engine.decide.brief import Limits
from engine.decide.choose import admissible_under, statistics_of
from engine.decide.decision import Decision, decide
from engine.diagnose.comparison import Quality, labeled_rows, quality
from engine.diagnose.evidence import evidence_problems
from engine.family.cost import graph_bytes
from engine.family.kinds import AnyRecipe
from engine.family.recipes import recipe_of
from engine.predictions.file import load_predictions
from engine.predictions.ownership import check_predictions
from engine.recommend.trust import label_trust
from engine.rules.statistics import PoolStatistics
from engine.samples import SAMPLES, sample_predictions
from engine.target import ImageSet
from engine.target.label_book import Change, Difference, Entry, LabelBook, difference
from engine.target.label_log import Event, append, read, replay
from engine.teacher.facts import read_facts
from engine.types import (
    LABEL_TRUSTS,
    Bools,
    Floats,
    LabeledSample,
    LabelTrust,
    Predictions,
    TeacherFacts,
    UserError,
)
from pages.ui.jobs import control as jobs
from pages.ui.session.memory import Memory, make_room
from pages.ui.session.record import FILES, JOBS, Record, Step
from pages.ui.show.words import in_fields
from pages.ui.workspace.expiry import steady_now, sweep_regularly
from pages.ui.workspace.folder import RECORD, is_id, new_id, read_json, remove, sweep, write_json
from pages.ui.workspace.hosting import Hosting, hosting
from pages.ui.workspace.images import open_target
from pages.ui.workspace.projects import keep_copy, put_away, recover, take_up
from pages.ui.workspace.sharing import stop_sharing
from pages.ui.workspace.weighing import is_large, is_weighed, weighed_pool, weighed_problems

T = TypeVar("T")
_STAY_SECONDS = 600.0  # how often a session in use says so on disk
_KEY = "anchorpoint"
_QUERY = "session"
SHARE = "share"  # what a read-only link says in place of a session
LABELS = "labels.jsonl"


class Session:
    """One visitor's work. Reads are properties; every change goes through a method that saves and forgets
    what it invalidates.
    """

    def __init__(self, folder: Path, host: Hosting) -> None:
        self.folder, self.host = folder, host
        self._memory = Memory()
        self._stamp = 0
        self.has_entered = False  # app.py has run for this visitor
        self.wanted = ""  # the page to open once it has
        self.complaint = ""  # why the last attempt failed, for the next page that is drawn
        self.is_lost = False  # the address named a session that is not here
        self.record = Record()
        recover(folder)
        self.refresh()

    def enter(self) -> str:
        """Note that app.py has run; return the page that was asked for before it had, if any."""
        self.has_entered, wanted, self.wanted = True, self.wanted, ""
        return wanted

    # --- on disk ------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Read the record again if another tab changed it."""
        path = self.folder / RECORD
        stamp = path.stat().st_mtime_ns if path.exists() else 0
        if stamp != self._stamp:
            values = read_json(path)
            self.record = Record.from_json(values) if values else Record()
            self._stamp = stamp
            self._take_over(values or {})

    def _take_over(self, values: dict[str, Any]) -> None:
        """Labels that an earlier version kept in the record begin a history of their own."""
        rows, labels = values.get("rows", ()), values.get("labels", ())
        if rows and not (self.folder / LABELS).exists():
            entries = {
                row: Entry(label=label, source="file") for row, label in zip(rows, labels, strict=True)
            }
            append(self.folder / LABELS, Change(words="labels of an earlier version", entries=entries))

    def change(self, *, keep: Step, **values: Any) -> None:
        """Change facts of the session, keep the steps up to `keep`, and forget every later one, in memory and
        on disk.
        """
        self.record = replace(self.record.forget_after(keep), **values)
        for step in Step:
            if step > keep:
                self._drop(step)
        self.save()

    def note(self, **values: Any) -> None:
        """Change facts that invalidate nothing."""
        self.record = replace(self.record, **values)
        self.save()

    def restart(self, **values: Any) -> None:
        """Begin again with another teacher, or with nothing at all; what was at hand is kept as a project."""
        if self.is_worth_keeping:
            self.put_away()
        stop_sharing(self.folder)  # of work that was not worth keeping; what was kept took its link along
        self.record = Record(**values)
        for step in Step:
            self._drop(step)
        self._memory.clear()
        self.save()

    # --- projects -----------------------------------------------------------------------------

    @property
    def has_own_labels(self) -> bool:
        """Whether a person gave or took in labels; those that came with the predictions can be had again."""
        given = (entry.source for change in self.book.changes for entry in change.entries.values())
        return any(source != "file" for source in given)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the work at hand holds anything that cannot be had again with one click."""
        return bool(self.record.origin) and (
            self.has_own_labels
            or bool(self.record.chosen)
            or (self.record.origin != "sample" and bool(self.teacher or self.predictions))
            or (self.folder / "predictions.npz").exists()
        )

    def attempt(self, action: Callable[[], None]) -> None:
        """Do what a dialog asked for; a user's mistake is kept for the page, which is drawn afterwards."""
        try:
            action()
        except UserError as error:
            self.complaint = in_fields(error)

    def put_away(self, *, spare: str = "") -> None:
        """Keep the work at hand as a project and begin with nothing."""
        self.save()
        jobs.stop_all(self.folder)
        put_away(self.folder, spare=spare)
        self.record = Record()
        self._memory.clear()
        self.save()

    def keep_labels(self) -> None:
        """Labels belong to their images: before the images change, a copy of the work is kept as a
        project.
        """
        if self.has_own_labels:
            keep_copy(self.folder, without=("store", "jobs", "incoming"))

    def take_up(self, project: str) -> None:
        """Go on with a project; what was at hand takes its place among them."""
        if self.is_worth_keeping:
            self.put_away(spare=project)
        else:
            self.restart()
        remove(self.folder / RECORD)
        take_up(self.folder, project)
        (self.folder / RECORD).touch()
        self._memory.clear()
        self._stamp = 0
        self.refresh()

    def save(self) -> None:
        write_json(self.folder / RECORD, self.record.to_json())
        self._stamp = (self.folder / RECORD).stat().st_mtime_ns

    def _drop(self, step: Step) -> None:
        for kind in JOBS.get(step, ()):
            jobs.forget(self.folder, kind)
        for name in FILES.get(step, ()):
            remove(self.folder / name)

    def keep(self, name: str, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the result of `name` for these inputs (`key`), computed once."""
        return self._memory.keep(name, key, compute)

    def let_go(self) -> None:
        """Release what is held in memory; the folder has everything to make it again."""
        self._memory.clear()

    def stay(self) -> None:
        """Put off the session's expiry while it is in use, and let others' pages make room for it."""
        path = self.folder / RECORD
        make_room(self._memory, self.host.held_bytes)
        if path.exists() and abs(time.time() - path.stat().st_mtime) > _STAY_SECONDS:
            path.touch()
            self._stamp = path.stat().st_mtime_ns

    # --- the steps ----------------------------------------------------------------------------

    @property
    def teacher(self) -> TeacherFacts | None:
        """The teacher's outline (no weights), once it was read."""
        path = self.folder / "outline.json"
        if not path.exists():
            return None
        return self.keep("teacher", path.stat().st_mtime_ns, lambda: read_facts(read_json(path) or {}))

    @property
    def recipes(self) -> tuple[AnyRecipe, ...]:
        """The family to run: the grid, or one of those people deploy, which depends on the teacher's
        layers.
        """
        from engine.family.families import make_family, parse_family
        from engine.family.recipes import custom_family

        r = self.record
        if self.teacher is not None and (r.family != "paper" or r.has_standard_grid):
            return make_family(parse_family(r.family), self.teacher)
        return custom_family(r.bits, r.percentiles, r.granularities, r.ends)  # type: ignore[arg-type]

    @property
    def predictions_path(self) -> Path | None:
        """The file of the predictions that count, or their folder: run here, uploaded, opened in place, or
        shipped with the sample.
        """
        path = self.folder / "predictions.npz"
        if path.exists():
            return path
        if self.record.predictions_folder and self.host.allows_server_paths:
            return Path(self.record.predictions_folder)
        return sample_predictions(self.record.sample) if self.record.uses_shipped_predictions else None

    @property
    def predictions(self) -> Predictions | None:
        """Predictions run here, uploaded, or shipped with the sample; None before any of these."""
        path = self.predictions_path
        if path is None:
            return None
        return self.keep("predictions", self.evidence_key, lambda: load_predictions(path))

    @property
    def problems(self) -> tuple[str, ...]:
        """What speaks against deciding on these predictions, looked for once per predictions file."""
        predictions, path = self.require_predictions(), self.predictions_path
        if path is not None and is_large(predictions):
            return weighed_problems(self.folder, path)
        return self.keep("problems", self.evidence_key, lambda: evidence_problems(predictions))

    @property
    def mismatch(self) -> str:
        """Why the predictions cannot be this teacher's; "" if they can, or if one of the two is not there."""
        predictions, teacher = self.predictions, self.teacher
        if predictions is None or teacher is None:
            return ""
        key = (self.evidence_key, teacher.fingerprint, teacher.name)
        return self.keep("mismatch", key, lambda: _mismatch(predictions, teacher))

    @property
    def checks(self) -> dict[str, Any] | None:
        """What the check of the target images found, once it is done."""
        path = self.folder / "checks.json"
        return (
            self.keep("checks", path.stat().st_mtime_ns, lambda: read_json(path)) if path.exists() else None
        )

    @property
    def images(self) -> ImageSet:
        """The target images, opened but not decoded."""
        target = self.record.target
        return self.keep("images", target, lambda: open_target(self.folder, target, self.host.limits))

    @property
    def has_images(self) -> bool:
        """Whether the pool can be looked at; some samples and every predictions file come without their
        images.
        """
        if self.record.target == "sample":
            return SAMPLES[self.record.sample].target == "digits"
        return bool(self.record.target)

    @property
    def order(self) -> Sequence[int]:
        """Which image each pool row is; array files and the sample keep their own order."""
        if self.checks:
            order: list[int] = self.checks["order"]
            return order
        return range(
            len(self.images) if self.predictions is None else min(len(self.images), self.predictions.n_images)
        )

    @property
    def pool_files(self) -> tuple[str, ...]:
        """Names of the usable images in pool order."""
        return tuple(self.images.names[index] for index in self.order)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes as far as anybody gave them, else their numbers."""
        if self.teacher is not None and not self.mismatch:
            return self.teacher.class_names
        predictions = self.require_predictions()
        return predictions.class_names or tuple(str(index) for index in range(predictions.n_classes))

    @property
    def evidence_key(self) -> Hashable:
        """Changes whenever the predictions do."""
        path = self.predictions_path
        return None if path is None else (str(path), path.stat().st_mtime_ns)

    @property
    def pool(self) -> PoolStatistics:
        predictions, path = self.require_predictions(), self.predictions_path
        if path is not None and is_large(predictions):
            return self.keep("pool", self.evidence_key, lambda: weighed_pool(self.folder, path, predictions))
        return self.keep("pool", self.evidence_key, lambda: statistics_of(predictions))

    @property
    def has_statistics(self) -> bool:
        """Whether the pool can be spoken of without going through it: it is small, or a job has done so."""
        predictions, path = self.require_predictions(), self.predictions_path
        return path is None or not is_large(predictions) or is_weighed(self.folder, path)

    def require_predictions(self) -> Predictions:
        if self.predictions is None:
            raise UserError(
                "there are no predictions yet. Start with a sample on the Teacher page, or run the family on"
                " the Target page."
            )
        return self.predictions

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything that was ever done to the labels, undone or not."""
        return self.keep("events", self._label_stamp, lambda: read(self.folder / LABELS))

    @property
    def _label_stamp(self) -> Hashable:
        path = self.folder / LABELS
        return (path.stat().st_mtime_ns, path.stat().st_size) if path.exists() else None

    @property
    def book(self) -> LabelBook:
        """The labels as they stand, with their history."""
        return self.keep("book", self._label_stamp, lambda: replay(self.events))

    @property
    def rows(self) -> tuple[int, ...]:
        """Labeled pool rows, in the order they were labeled."""
        return self.book.rows

    @property
    def labels(self) -> tuple[int, ...]:
        """The class of each of these rows."""
        return self.book.labels

    @property
    def sample(self) -> LabeledSample | None:
        """S, in the order the labels were given; None without labels."""
        return self.book.sample

    def since(self, n_events: int) -> Difference:
        """What happened to the labels since there were so many events."""
        return difference(replay(self.events[:n_events]), self.book)

    @property
    def admissible(self) -> Bools | None:
        predictions, limits = self.require_predictions(), self.limits
        if limits.n_bytes is not None:
            predictions = replace(predictions, bytes=self.file_sizes)
        return admissible_under(
            predictions, limits.memory, max_latency=limits.latency, max_bytes=limits.n_bytes
        )

    @property
    def limits(self) -> Limits:
        """What a candidate may take, as far as it is known what they take."""
        predictions, record = self.require_predictions(), self.record
        return Limits(
            memory=None if predictions.cost is None else record.budget,
            n_bytes=None if self.file_sizes is None else record.max_bytes,
            latency=None if predictions.latency is None else record.max_latency,
        )

    @property
    def file_sizes(self) -> Floats | None:
        """Bytes of each candidate's file, (M,): as the run states them, else from the teacher's graph."""
        predictions, graph = self.require_predictions(), self.folder / "teacher.onnx"
        if predictions.bytes is not None or self.teacher is None or not graph.exists():
            return predictions.bytes
        teacher, recipes = self.teacher, [recipe_of(name) for name in predictions.names]
        known = [recipe for recipe in recipes if recipe is not None]
        if len(known) < len(recipes):
            return None
        n_bytes = graph.stat().st_size
        key = (self.evidence_key, teacher.fingerprint, n_bytes)
        return self.keep(
            "file-sizes",
            key,
            lambda: np.array([graph_bytes(teacher, recipe, n_bytes) for recipe in known], np.float64),
        )

    @property
    def decision_key(self) -> Hashable:
        """Changes whenever anything that a choice depends on does."""
        return (
            self.evidence_key,
            self.rows,
            self.labels,
            self.record.budget,
            self.record.max_latency,
            self.record.max_bytes,
            self.record.has_transport,
            self.trust,
        )

    @property
    def trust(self) -> LabelTrust:
        """How the labels were made, as the person says; what is held of wrong labels follows from it."""
        stated = self.record.label_trust
        return label_trust(stated) if stated in LABEL_TRUSTS else "normal"

    @property
    def decision(self) -> Decision:
        """Every rule's choice on the present evidence, computed once per change of predictions, labels or
        budget.
        """
        predictions, pool, skip = (
            self.require_predictions(),
            self.pool,
            () if self.record.has_transport else ("cot",),
        )
        return self.keep(
            "decision",
            self.decision_key,
            lambda: decide(predictions, pool, self.sample, self.admissible, skip=skip, trust=self.trust),
        )

    def quality(self, index: int | None) -> Quality | None:
        """What the labels say of a candidate, or of the teacher (None); None without labels."""
        sample, predictions = self.sample, self.require_predictions()
        if sample is None:
            return None
        probs = predictions.teacher if index is None else predictions.candidates[index]
        return self.keep(
            f"quality-{index}",
            self.decision_key,
            lambda: quality(labeled_rows(probs, sample), sample.labels),
        )

    def limit(self, **limits: float | None) -> None:
        """Set a limit on what may be chosen. The choice stays, and so does a file that was written under
        another limit: pages say where one is over it, and a certificate says which one it was.
        """
        self.note(**limits)

    def choose(self, name: str, how: str) -> None:
        """Settle on a candidate. A file that was written before stays: its certificate says whose it is."""
        self.note(chosen=name, chosen_how=how, chosen_at=len(self.events))

    def done(self, step: Step) -> bool:
        """Whether a step has what the next one needs."""
        return {
            Step.TEACHER: bool(self.record.origin),
            Step.CANDIDATES: self.teacher is not None or self.predictions is not None,
            Step.TARGET: self.predictions is not None or bool(self.record.target),
            Step.LABELS: bool(self.rows),
            Step.RUN: self.predictions is not None,
            Step.CHOICE: bool(self.record.chosen),
            Step.EXPORT: (self.folder / "bundle.zip").exists(),
        }[step]


def _mismatch(predictions: Predictions, teacher: TeacherFacts) -> str:
    try:
        check_predictions(predictions, teacher)
    except UserError as error:
        return in_fields(error)
    return ""


@st.cache_resource(scope="session", show_spinner=False, on_release=Session.let_go)
def _held(name: str, _session: Session) -> Session:
    """Tie what a session holds in memory to its open tab: Streamlit itself keeps a closed one for minutes."""
    return _session


def current_session() -> Session:
    """Return this visitor's Session: from memory, from the folder that the address names, or a new one."""
    asked = st.query_params.get(_QUERY, "")
    session: Session | None = st.session_state.get(_KEY)
    if session is None or (is_id(asked) and asked != session.folder.name):
        host = hosting()
        known = is_id(asked) and (host.root / asked / RECORD).is_file()
        if not known:
            sweep(host.root, host.expiry_seconds, steady_now())
        sweep_regularly(host.root, host.expiry_seconds)
        session = Session(host.root / (asked if known else new_id()), host)
        session.is_lost = bool(asked) and not known
        st.session_state[_KEY] = session
    _held(session.folder.name, session)
    session.refresh()
    session.stay()
    if asked != session.folder.name:
        st.query_params[_QUERY] = session.folder.name
    return session


def reset_session() -> None:
    """Forget everything this visitor did, projects included, and give them a fresh folder."""
    session: Session | None = st.session_state.pop(_KEY, None)
    if session is not None:
        jobs.stop_all(session.folder)
        remove(session.folder)
    st.query_params.pop(_QUERY, None)
