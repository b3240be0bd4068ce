"""Every way a child can end, as one sentence: which file, what happened, what to do. Knows exit codes and
signals.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from engine.guard.child import FAILED, NO_MEMORY, TOO_LARGE
from engine.guard.limits import WAITING, Limits
from engine.types import UserError

_REMEDY = {
    "import": "Export or save the model again",
    "images": "Remove or repair the images at fault",
    "verify": "Do not use this bundle; ask for a new export",
    "judge": "Check the model file",
}


class EndedError(UserError):
    """A child fell or was ended; it did not refuse by itself. `is_late` if it took too long."""

    is_late = False


@dataclass(frozen=True)
class End:
    """How a child ended: its exit code (negative: a signal), or what the parent stopped it for."""

    code: int | None
    stage: str
    stopped: str = ""  # "time" or "output" if the parent ended it
    allowed: float = 0.0  # seconds that the stage had
    last_words: str = ""  # the last line of its log

    @property
    def is_late(self) -> bool:
        """Whether it took too long, by its own clock or by the wall's."""
        return self.stopped == "time" or self.code == -signal.SIGXCPU


def sentence(end: End, subject: str, limits: Limits) -> str:
    """Say what happened to `subject` and what to do about it; the log's place is added by the caller."""
    remedy, what = _REMEDY[limits.kind], fate(end, limits)
    if end.is_late:
        return (
            f"{subject} was stopped: {what}. {remedy}; if it is truly that large, raise"
            f" {limits.setting}_SECONDS."
        )
    if _is_large(end):
        return f"{subject} was stopped: {what}. {remedy}."
    if _is_out_of_memory(end):
        return (
            f"{subject} was stopped: {what}. {remedy}; if it is truly that large, raise"
            f" {limits.setting}_MEMORY_GB."
        )
    return f"{subject} cannot be used: {what}. {remedy}."


def fate(end: End, limits: Limits) -> str:
    """Say how a stage ended, as the middle of a sentence."""
    if end.is_late:
        wall = WAITING if end.stopped else 1.0
        return f"{end.stage} took longer than {wall * end.allowed:.0f} s"
    if _is_large(end):
        return f"{end.stage} wrote more than {limits.output_bytes / 1e9:.3g} GB"
    if _is_out_of_memory(end):
        return f"{end.stage} needs more than {limits.memory / 1e9:.3g} GB of memory"
    if end.code == FAILED:
        return f"{end.stage} failed ({_words(end)})"
    return (
        f"{end.stage} ended abnormally ({_signal(end.code)}), for lack of memory"
        f" ({limits.memory / 1e9:.3g} GB allowed) or because the file is damaged"
    )


def _is_large(end: End) -> bool:
    return end.stopped == "output" or end.code in (TOO_LARGE, -signal.SIGXFSZ)


def _is_out_of_memory(end: End) -> bool:
    return end.code in (NO_MEMORY, -signal.SIGKILL)


def _words(end: End) -> str:
    return end.last_words[:200].rstrip(". ") or "no reason given"


def _signal(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
