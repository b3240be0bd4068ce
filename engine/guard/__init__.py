"""A stranger's file is read and run in a child process with limits; however that ends, one sentence comes
back.

Knows processes, limits and logs. Knows nothing of models, images or formats.
"""

from engine.guard.child import is_limited
from engine.guard.limits import Limits, limits_for
from engine.guard.pool import Answer, Fallen, Part, Pool
from engine.guard.run import Outcome, guarded
from engine.guard.stages import Child, patience_with, progress, stage

__all__ = [
    "Answer",
    "Child",
    "Fallen",
    "Limits",
    "Outcome",
    "Part",
    "Pool",
    "guarded",
    "is_limited",
    "limits_for",
    "patience_with",
    "progress",
    "stage",
]
