"""What a candidate may take: memory, bytes of its file, time. Knows the words for it; checks nothing, and is
light enough for every command.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What a candidate may take; None: as much as it likes."""

    memory: float | None = None  # weights, relative to the float teacher's
    n_bytes: float | None = None  # of the file that ships
    latency: float | None = None  # time for an image, relative to the float teacher's

    def in_words(self, whole: str = "float") -> tuple[str, ...]:
        """Each limit that is set, in words; `whole` is what memory is a share of.

        >>> Limits(memory=0.18, latency=0.8).in_words()
        ('18 % of the float weights', "0.8 of the teacher's time")
        """
        weights = "the float weights" if whole == "float" else whole
        said = (
            "" if self.memory is None else f"{100 * self.memory:.3g} % of {weights}",
            "" if self.n_bytes is None else f"a file of {self.n_bytes / 1e3:,.4g} kB",
            "" if self.latency is None else f"{self.latency:.3g} of the teacher's time",
        )
        return tuple(words for words in said if words)
