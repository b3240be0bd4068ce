"""Teacher and candidates over the target images, once, resumably: what `estimators` and `selectors` start
from.

Knows the whole path from weights and images to Predictions. Knows nothing of rules or choices.
"""

from engine.predict.gather import labels_in_pool_order, predict, reading, running_order
from engine.predict.machine import available_cores
from engine.predict.memory import peak_memory_estimate
from engine.predict.pool import Pool, PoolOptions, prepare_pool
from engine.predict.runner import ProgressReport
from engine.predict.store import default_store

__all__ = [
    "Pool",
    "PoolOptions",
    "ProgressReport",
    "available_cores",
    "default_store",
    "labels_in_pool_order",
    "peak_memory_estimate",
    "predict",
    "prepare_pool",
    "reading",
    "running_order",
]
