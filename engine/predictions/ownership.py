"""Are these predictions this teacher's? Everything that combines the two asks here.

Knows fingerprints, and what gives another model away in a file that carries none. Runs nothing.
"""

from __future__ import annotations

from engine.family.cost import cost
from engine.family.kinds import CorrectedRecipe, tailored_of
from engine.family.recipes import recipe_of
from engine.types import Predictions, TeacherFacts, UserError

_COST_TOLERANCE = 5e-4  # costs may have been written with three decimals; other models differ by more
_REMEDY = "Give the predictions made with this teacher, or the teacher they were made with."


def check_predictions(predictions: Predictions, teacher: TeacherFacts) -> None:
    """Raise UserError if the predictions are not this teacher's with its present preprocessing.

    A file that names its teacher is compared by fingerprint. One that does not (older, or from elsewhere) is
    refused for other classes, or for candidates that cost another share; another model of the same shape
    passes here, and comparing outputs on images finds it.
    """
    if predictions.n_classes != teacher.n_classes:
        raise UserError(
            f"the predictions have {predictions.n_classes} classes and {teacher.name} has"
            f" {teacher.n_classes}: they are of another model.",
            _REMEDY,
        )
    if predictions.teacher_sha256 is not None and teacher.fingerprint:
        if predictions.teacher_sha256 != teacher.fingerprint:
            raise UserError(
                f"the predictions are of another model than {teacher.name}, or were made with other"
                f" preprocessing (fingerprint {predictions.teacher_sha256[:12]} there,"
                f" {teacher.fingerprint[:12]} here).",
                _REMEDY,
            )
        return
    _check_costs(predictions, teacher)


def _check_costs(predictions: Predictions, teacher: TeacherFacts) -> None:
    if predictions.cost is None:
        return
    for name, stated in zip(predictions.names, predictions.cost, strict=True):
        tailored = tailored_of(name)
        recipe = tailored.recipe if isinstance(tailored, CorrectedRecipe) else recipe_of(name)
        if recipe is not None and abs(cost(teacher, recipe) - stated) > _COST_TOLERANCE:
            raise UserError(
                f"the predictions are of another model than {teacher.name}: {name} costs {stated:.4%} of the"
                f" float weights there, {cost(teacher, recipe):.4%} here.",
                _REMEDY,
            )
