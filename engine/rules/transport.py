"""Optimal transport of predictions to equally frequent classes, exactly. Knows the solver, not the rule."""

from __future__ import annotations

import os
from types import ModuleType

import numpy as np

from engine.types import Floats


def optimal_transport() -> ModuleType:
    """Return the solver's package, imported without the array frameworks that it would load beside it."""
    # POT imports every array framework it finds, torch and TensorFlow included, unless told not to: seconds
    # and gigabytes.
    for framework in ("PYTORCH", "TENSORFLOW", "JAX", "CUPY"):
        os.environ.setdefault(f"POT_BACKEND_DISABLE_{framework}", "1")
    import ot  # slow to import, and one rule needs it

    module: ModuleType = ot
    return module


def transport_cost(probs: Floats) -> float:
    """Return 1 - max_{Π1=1/N, Πᵀ1=1/K} Σ Π∘P for probs (N, K), by network simplex."""
    ot = optimal_transport()
    probs = np.asarray(probs, dtype=np.float64)
    n_images, n_classes = probs.shape
    rows, classes = np.full(n_images, 1 / n_images), np.full(n_classes, 1 / n_classes)
    cost, log = ot.emd2(rows, classes, np.ascontiguousarray(1.0 - probs), numItermax=10_000_000, log=True)
    if log["warning"]:
        raise RuntimeError(f"optimal transport did not finish: {log['warning']}")
    return float(cost)
