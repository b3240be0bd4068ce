"""A stranger's file is read and run in a child process with limits; however that ends, one sentence comes
back.

Knows processes, limits and logs. Knows nothing of models, images or formats.
"""

from engine.guard.child import is_limited
from engine.guard.ends import EndedError
from engine.guard.limits import STARTING, WAITING, Limits, limits_for, patience_with
from engine.guard.pool import Answer, Fallen, Part, Pool
from engine.guard.run import Outcome, guarded
from engine.guard.stages import Child, progress, stage

__all__ = [
    "STARTING",
    "WAITING",
    "Answer",
    "Child",
    "EndedError",
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
