"""Every way a child can end, as one sentence: which file, what happened, what to do. Knows exit codes and
signals.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass

from engine.guard.child import FAILED, NO_MEMORY, TOO_LARGE
from engine.guard.limits import WAITING, Limits

_REMEDY = {
    "import": "Export or save the model again",
    "images": "Remove or repair the images at fault",
    "verify": "Do not use this bundle; ask for a new export",
    "judge": "Check the model file",
}


@dataclass(frozen=True)
class End:
    """How a child ended: its exit code (negative: a signal), or what the parent stopped it for."""

    code: int | None
    stage: str
    stopped: str = ""  # "time" or "output" if the parent ended it
    allowed: float = 0.0  # seconds that the stage had
    last_words: str = ""  # the last line of its log


def sentence(end: End, subject: str, limits: Limits) -> str:
    """Say what happened to `subject` and what to do about it; the log's place is added by the caller."""
    remedy = _REMEDY[limits.kind]
    if end.stopped == "time" or end.code == -signal.SIGXCPU:
        wall = WAITING if end.stopped else 1.0
        return (
            f"{subject} was stopped: {end.stage} took longer than {wall * end.allowed:.0f} s. {remedy}; if it"
            f" is truly that large, raise {limits.setting}_SECONDS."
        )
    if end.stopped == "output" or end.code in (TOO_LARGE, -signal.SIGXFSZ):
        return (
            f"{subject} was stopped: {end.stage} wrote more than {limits.output_bytes / 1e9:.3g} GB."
            f" {remedy}."
        )
    if end.code in (NO_MEMORY, -signal.SIGKILL):
        return (
            f"{subject} was stopped: {end.stage} needs more than {limits.memory / 1e9:.3g} GB of memory."
            f" {remedy}; if it is truly that large, raise {limits.setting}_MEMORY_GB."
        )
    if end.code == FAILED:
        return f"{subject} cannot be used: {end.stage} failed ({_words(end)}). {remedy}."
    return (
        f"{subject} cannot be used: {end.stage} ended abnormally ({_signal(end.code)}), for lack of memory"
        f" ({limits.memory / 1e9:.3g} GB allowed) or because the file is damaged. {remedy}."
    )


def _words(end: End) -> str:
    return end.last_words[:200].rstrip(". ") or "no reason given"


def _signal(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
