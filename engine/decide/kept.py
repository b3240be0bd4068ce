"""The costly statistics of a large family as plain arrays, so that one process can make them and another use
them.

Knows which arrays those are. Knows no file; the rules see no difference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.recommend.auto import memo_key
from engine.recommend.hypotheses import COSTLY, calibrated_pool
from engine.rules.statistics import BY_ROW, CORRELATION, DISTORTION, SPECTRUM, PoolStatistics, pool_statistics
from engine.rules.streaming import ByRow, Correlation
from engine.types import Floats, Predictions, Progress

STATISTICS = ("distortion", "confidence", "neg_entropy", "predicted", "trace", "norm", "spectrum")
ARRAYS = (*STATISTICS, *COSTLY)


def kept_arrays(
    pool: PoolStatistics,
    class_shares: Floats | None = None,
    *,
    on_progress: Progress | None = None,
    on_comparison: Progress | None = None,
) -> dict[str, NDArray[Any]]:
    """Make every statistic of a pass, prepare the recommended rule, and return it all by the names in
    ARRAYS.

    The two take about as long: `on_progress` counts candidates, then `on_comparison` parts of the pool.
    """
    pool.need(DISTORTION, BY_ROW, CORRELATION, SPECTRUM, on_progress=on_progress)
    prepared = calibrated_pool(pool.teacher, pool, class_shares=class_shares, on_progress=on_comparison)
    return {
        **{name: getattr(prepared, name) for name in COSTLY},
        "distortion": pool.distortion,
        "confidence": pool.confidence,
        "neg_entropy": pool.neg_entropy,
        "predicted": pool.predicted,
        "trace": pool.gram_trace,
        "norm": pool.gram_norm,
        "spectrum": pool.spectrum_sum,
    }


def statistics_from(predictions: Predictions, kept: Mapping[str, NDArray[Any]]) -> PoolStatistics:
    """Return the statistics of these predictions with what `kept_arrays` made; nothing is read again."""
    shape = (predictions.n_candidates, predictions.n_images)
    if kept["confidence"].shape != shape:
        raise ValueError(f"these statistics are of shape {kept['confidence'].shape}, the predictions {shape}")
    pool = pool_statistics(predictions.teacher, predictions.candidates, calibration=predictions.calibration)
    pool.take(
        {
            DISTORTION: np.asarray(kept["distortion"]),
            BY_ROW: ByRow(kept["confidence"], kept["neg_entropy"], kept["predicted"]),
            CORRELATION: Correlation(kept["trace"], kept["norm"]),
            SPECTRUM: np.asarray(kept["spectrum"]),
        }
    )
    shares = predictions.class_shares
    pool.memo[memo_key(class_shares=shares)] = calibrated_pool(
        predictions.teacher, pool, class_shares=shares, made=kept
    )
    return pool
