"""From recipes to files: every tailored candidate of a family is built once, kept in the store, and described
as a model file to be judged.

Knows the order of the work and the store. Ranges, bits and rounding are the factories' business.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import onnx
import onnxruntime as ort

from engine.deploy.calibration import Calibration
from engine.deploy.integers import IntegerFactory
from engine.deploy.mended import MendingFactory
from engine.deploy.mixed import MixedFactory
from engine.deploy.tailored import TailoredModel
from engine.family.kinds import MixedRecipe, StaticRecipe, Tailored
from engine.family.model_file import InputForm, ModelFile, OutputForm, Refusal
from engine.predictions.runner import ProgressReport
from engine.predictions.store import commit, is_intact, make_folder, store_key, temporary, write_text
from engine.teacher.apart import UnrunnableError
from engine.types import UserError

_VERSION = "3"  # raise it when a built file could change

OnProgress = Callable[[ProgressReport], None]


@dataclass(frozen=True, eq=False)
class BuiltFile:
    """A tailored candidate on disk: the file that is judged, its weights' true size and what is said of
    it.
    """

    recipe: Tailored
    model: ModelFile
    weight_bytes: float
    facts: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Built:
    """All tailored candidates that could be built, and why the others could not."""

    files: tuple[BuiltFile, ...]
    refused: tuple[Refusal, ...] = ()

    def allocations(self) -> dict[str, dict[str, int]]:
        """Return the bits per layer of every mixed candidate, by name."""
        return {f.model.name: f.facts["allocation"] for f in self.files if "allocation" in f.facts}


@dataclass(eq=False)
class Workshop:
    """Builds tailored candidates of one teacher from one set of calibration images."""

    calibration: Calibration
    store: Path
    on_progress: OnProgress | None = None

    @cached_property
    def folder(self) -> Path:
        """Where the files lie: a name that depends on all that could change them."""
        key = {
            "teacher": self.calibration.teacher.fingerprint,
            "preprocessing": self.calibration.teacher.preprocessing.to_json(),
            "images": self.calibration.digests,
            "onnxruntime": ort.__version__,
            "version": _VERSION,
        }
        return make_folder(self.store / "tailored" / store_key(key))

    @cached_property
    def _integers(self) -> IntegerFactory:
        return IntegerFactory(self.calibration)

    @cached_property
    def _mixed(self) -> MixedFactory:
        return MixedFactory(self.calibration, self.store, self._layers)

    @cached_property
    def _mended(self) -> MendingFactory:
        return MendingFactory(self.calibration, self._mixed)

    def _layers(self, done: int, total: int) -> None:
        self._report(done, total, "measuring layers")

    def _report(self, done: int, total: int, stage: str) -> None:
        if self.on_progress is not None:
            self.on_progress(
                ProgressReport(done=done, total=total, images_per_second=0.0, seconds_left=None, stage=stage)
            )

    def build(self, recipes: Iterable[Tailored], cancel: Callable[[], bool] | None = None) -> Built:
        """Build or find every recipe's file; one that does not suit the teacher is refused with its
        reason.
        """
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        # kernels are too small for several threads: waiting for each other costs more than the work
        with threadpool_limits(1):
            return self._build(tuple(recipes), cancel)

    def _build(self, wanted: Sequence[Tailored], cancel: Callable[[], bool] | None) -> Built:
        files, refused = [], []
        for done, recipe in enumerate(wanted):
            if cancel is not None and cancel():
                refused.append(Refusal(recipe.slug, "the run ended before it was built"))
                continue
            self._report(done, len(wanted), f"building {recipe.slug}")
            try:
                files.append(self.file(recipe))
            except UnrunnableError:
                raise
            except UserError as error:
                refused.append(Refusal(recipe.slug, error.problem))
        return Built(tuple(files), tuple(refused))

    def file(self, recipe: Tailored) -> BuiltFile:
        """Return one recipe's file, built now or earlier; raise UserError if it does not suit the teacher."""
        path, about = self.folder / f"{recipe.slug}.onnx", self.folder / f"{recipe.slug}.json"
        if not (is_intact(path) and about.is_file()):
            made = self._make(recipe)
            facts = {"weight_bytes": made.weight_bytes, "facts": dict(made.facts), "notes": made.notes}
            write_text(about, json.dumps(facts))
            partial = temporary(path)
            partial.write_bytes(made.content)
            commit(partial, path)
        return self._described(recipe, path, json.loads(about.read_text(encoding="utf-8")))

    def _make(self, recipe: Tailored) -> TailoredModel:
        if isinstance(recipe, StaticRecipe):
            return self._integers.make(recipe)
        if isinstance(recipe, MixedRecipe) and not recipe.optimised:
            return self._mixed.make(recipe)
        return self._mended.make(recipe)

    def _described(self, recipe: Tailored, path: Path, about: dict[str, Any]) -> BuiltFile:
        teacher, content = self.calibration.teacher, path.read_bytes()
        graph = onnx.ModelProto.FromString(content).graph
        model = ModelFile(
            name=recipe.slug,
            path=path,
            sha256=hashlib.sha256(content).hexdigest(),
            n_bytes=len(content),
            runtime="onnxruntime",
            input=InputForm(graph.input[0].name, teacher.preprocessing),
            output=OutputForm(graph.output[0].name, teacher.output, teacher.n_classes),
            format=(
                "ONNX, weights and activations in 8 bits"
                if isinstance(recipe, StaticRecipe)
                else "ONNX, packed integer weights"
            ),
            notes=tuple(about["notes"]),
            unpacked=not isinstance(recipe, StaticRecipe),
        )
        return BuiltFile(
            recipe=recipe, model=model, weight_bytes=float(about["weight_bytes"]), facts=about["facts"]
        )
