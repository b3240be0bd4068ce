"""Why this candidate: a choice as the record that a certificate keeps, and whether its predictions can be
this teacher's.

Knows choices and predictions, not how either was made.
"""

from __future__ import annotations

from typing import Any

from engine.exports.certificate import plain
from engine.family.cost import cost
from engine.family.kinds import CorrectedRecipe, tailored_of
from engine.family.recipes import recipe_of
from engine.types import Choice, Predictions, Teacher, UserError

_COST_TOLERANCE = 5e-4  # costs may have been written with three decimals; other models differ by more


def check_predictions(predictions: Predictions, teacher: Teacher) -> None:
    """Raise UserError if the predictions cannot be this teacher's: other classes, or candidates that cost
    another share of it.

    A predictions file names no teacher. Another model of the same shape passes here; comparing outputs on
    images finds it.
    """
    if predictions.n_classes != teacher.n_classes:
        raise UserError(
            f"the predictions have {predictions.n_classes} classes and {teacher.name} has"
            f" {teacher.n_classes}: they are of another model. Give the predictions made with this teacher."
        )
    if predictions.cost is None:
        return
    for name, stated in zip(predictions.names, predictions.cost, strict=True):
        tailored = tailored_of(name)
        recipe = tailored.recipe if isinstance(tailored, CorrectedRecipe) else recipe_of(name)
        if recipe is not None and abs(cost(teacher, recipe) - stated) > _COST_TOLERANCE:
            raise UserError(
                f"the predictions are of another model than {teacher.name}: {name} costs {stated:.4%} of the"
                f" float weights there, {cost(teacher, recipe):.4%} here. Give the predictions made with this"
                " teacher."
            )


def choice_evidence(choice: Choice, predictions: Predictions) -> dict[str, Any]:
    """Return the rule, what it saw, its scores of all candidates, the runner-up and its warnings, ready for
    JSON.
    """
    runner_up = None if choice.runner_up is None else predictions.names[choice.runner_up]
    record: dict[str, Any] = plain(
        {
            "method": choice.method,
            "picked": choice.name,
            "n_labels": choice.n_labels,
            "n_images": predictions.n_images,
            "coefficient": choice.coefficient,
            "score": float(choice.scores[choice.index]),
            "better": choice.better,
            "ties": choice.ties,
            "runner_up": runner_up,
            "margin": choice.margin,
            "warnings": list(choice.warnings),
            "details": choice.details,
            "coefficient_grid": choice.grid,
            "cross_validation_losses": choice.cv_losses,
            "scores": dict(zip(predictions.names, choice.scores, strict=True)),
        }
    )
    return record
