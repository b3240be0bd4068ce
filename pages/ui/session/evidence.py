"""What a visitor's work amounts to: teacher, predictions, labels and the decision, each read from the folder
and computed once per change of its inputs.

Reads only; knows nothing of projects, addresses or widgets.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engine.decide.choose import admissible_under, statistics_of
from engine.decide.decision import Decision, decide
from engine.decide.limits import Limits
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
from engine.target.class_shares import shares_of
from engine.target.label_book import Difference, LabelBook, difference
from engine.target.label_log import Event, read, replay
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
from pages.ui.session.work import LABELS, Work
from pages.ui.show.words import in_fields
from pages.ui.workspace.folder import read_json
from pages.ui.workspace.images import open_target
from pages.ui.workspace.weighing import (
    is_large,
    is_weighed,
    transport_costs,
    weighed_pool,
    weighed_problems,
)


class Evidence(Work):
    """The properties a page reads; what is large is opened in place."""

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
        return self.keep(
            "predictions", self.evidence_key, lambda: _with_shares(load_predictions(path), self.stated_shares)
        )

    @property
    def stated_shares(self) -> str:
        """How frequent the classes are, as the person says, in the words of the record."""
        return self.record.class_shares

    @property
    def problems(self) -> tuple[str, ...]:
        """What speaks against deciding on these predictions, looked for once per predictions file."""
        predictions, path = self.require_predictions(), self.predictions_path
        if path is not None and is_large(predictions):
            return weighed_problems(self.folder, path, self.stated_shares)
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
        return self.keep(
            "images", self.target_key, lambda: open_target(self.folder, target, self.host.limits)
        )

    @property
    def target_key(self) -> Hashable:
        """Changes whenever the target images do, also where other ones came to the same place."""
        path = Path(self.record.target)
        found = path.stat() if self.record.target != "sample" and path.exists() else None
        return (self.record.target, None if found is None else (found.st_ino, found.st_mtime_ns))

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
        """Changes whenever the predictions do, or what was stated of their classes."""
        path = self.predictions_path
        return None if path is None else (str(path), path.stat().st_mtime_ns, self.stated_shares)

    @property
    def pool(self) -> PoolStatistics:
        predictions, path = self.require_predictions(), self.predictions_path
        if path is not None and is_large(predictions):
            key = (self.evidence_key, self.has_transport)
            return self.keep(
                "pool", key, lambda: weighed_pool(self.folder, path, predictions, self.stated_shares)
            )
        return self.keep("pool", self.evidence_key, lambda: statistics_of(predictions))

    @property
    def has_statistics(self) -> bool:
        """Whether the pool can be spoken of without going through it: it is small, or a job has done so."""
        predictions, path = self.require_predictions(), self.predictions_path
        return path is None or not is_large(predictions) or is_weighed(self.folder, path, self.stated_shares)

    @property
    def has_transport(self) -> bool:
        """Whether optimal transport counts among the rules: it was asked for, and can be had at once or was
        made by a job.
        """
        predictions, path = self.require_predictions(), self.predictions_path
        if not self.record.has_transport or path is None or not is_large(predictions):
            return self.record.has_transport
        return bool(np.isfinite(transport_costs(self.folder, path, predictions.n_candidates)).all())

    def require_predictions(self) -> Predictions:
        if self.predictions is None:
            raise UserError(
                "there are no predictions yet. Start with a sample on the Teacher page, or run the family on"
                " the Target data page."
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
            self.has_transport,
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
            () if self.has_transport else ("cot",),
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


def _with_shares(predictions: Predictions, words: str) -> Predictions:
    """Return predictions with the class shares that were stated here; of another number of classes, they are
    of another target.
    """
    shares = shares_of(words, predictions.n_classes)
    return predictions if shares is None else replace(predictions, class_shares=shares)


def _mismatch(predictions: Predictions, teacher: TeacherFacts) -> str:
    try:
        check_predictions(predictions, teacher)
    except UserError as error:
        return in_fields(error)
    return ""
