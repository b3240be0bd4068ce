"""Words that every room may use: counts, shares and lists as a person reads them. Knows no subject."""

from engine.words.counts import counted, listed, out_of, percent

__all__ = ["counted", "listed", "out_of", "percent"]
