"""The hypotheses on the labeled images, a few images at a time: many labels of a thousand classes would fill
the memory.

Sees arrays only. Few labels, or few classes, are one block, made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from engine.recommend.channel import at_labels, likelihoods, true_classes
from engine.recommend.hypotheses import CalibratedPool, soften
from engine.recommend.trust import ErrorPrior
from engine.rules.streaming import blocks
from engine.types import Floats, Ints, LabeledSample

AT_ONCE = 1 << 22  # probabilities held at a time: 32 MB


@dataclass(frozen=True, eq=False)
class LabeledReferences:
    """Class probabilities (H, n, K) of every hypothesis on the images of a sample, with the labels there."""

    pool: CalibratedPool
    sample: LabeledSample
    bias: Floats  # (H, K)

    @cached_property
    def _log_refs(self) -> Floats:
        """(C, n, K), read once."""
        return self.pool.log_refs[:, self.sample.rows]

    @cached_property
    def _slices(self) -> list[slice]:
        width = len(self.bias) * self.pool.n_classes
        return list(blocks(self.sample.n, width, AT_ONCE)) or [slice(0, 0)]

    @cached_property
    def _only(self) -> Floats:
        return self._made(self._slices[0])

    def _made(self, images: slice) -> Floats:
        return soften(self._log_refs[self.pool.ref, images], self.pool.temperature, self.bias)

    def _blocks(self) -> Iterator[tuple[slice, Floats]]:
        if len(self._slices) == 1:
            yield self._slices[0], self._only
        else:
            yield from ((images, self._made(images)) for images in self._slices)

    def _joined(self, part: Callable[[Floats, Ints, slice], Floats], axis: int) -> Floats:
        """Return part(references, labels, images) of every block, put together along the images' axis."""
        parts = [part(found, self.sample.labels[images], images) for images, found in self._blocks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=axis)

    def at_labels(self) -> Floats:
        """Return each hypothesis' probability of the observed labels, (H, n), never quite zero."""
        return self._joined(lambda found, labels, _: at_labels(found, labels), axis=1)

    def likelihoods(self, prior: ErrorPrior) -> Floats:
        """Return the probability of observing each label, (E, H, n), under every error rate and kind."""
        confusion = self.pool.confusion
        return self._joined(lambda found, labels, _: likelihoods(prior, found, labels, confusion), axis=2)

    def true_classes(self, prior: ErrorPrior, odds: Floats) -> Floats:
        """Return what is believed of the true classes once the labels are seen, (n, K); odds (E, H, n)."""
        confusion = self.pool.confusion
        return self._joined(
            lambda found, labels, images: true_classes(prior, odds[:, :, images], found, labels, confusion),
            axis=0,
        )

    def mean(self, weights: Floats) -> Floats:
        """Return the class probabilities (n, K) that hypotheses of these weights (H,) expect together."""
        return self._joined(lambda found, *_: np.einsum("h,hnk->nk", weights, found), axis=0)
