"""How the labels were made, and what that says of the share of wrong ones before any evidence.

Knows the three answers a person can give. Knows nothing of candidates or references.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.types import LABEL_TRUSTS, Bools, Floats, LabelTrust, UserError

# Denser near 0. `normal` holds them equally probable: a prior that trusted labels more lost under noise.
ERROR_RATES = np.array([0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5])
# of the rate at which labels say nothing, (K-1)/K; beyond it the correction would divide by almost nothing
MOST_NOISE = 0.8
# Prior odds that wrong labels are confusions of similar classes rather than any other class alike. Even odds
# did better under confusions and worse under symmetric errors on development families.
CONFUSION_ODDS = 0.05
CROWD_MEAN, CROWD_SD = 0.2, 0.15  # crowd-sourced and automatic labels: audits find from 5 % to 40 % wrong

IN_WORDS: dict[LabelTrust, str] = {
    "checked": "checked by an expert",
    "normal": "made with normal care",
    "crowd": "made by a crowd or a program",
}


@dataclass(frozen=True, eq=False)
class ErrorPrior:
    """Possible shares of wrong labels (E,), short of the one at which labels say nothing; whether the errors
    are confusions of similar classes (E,) or symmetric; and log odds (E,).
    """

    rates: Floats
    confused: Bools
    log_odds: Floats

    @property
    def symmetric(self) -> ErrorPrior:
        """The part with symmetric errors."""
        kept = ~self.confused
        return ErrorPrior(rates=self.rates[kept], confused=self.confused[kept], log_odds=self.log_odds[kept])


def error_prior(trust: LabelTrust, n_classes: int) -> ErrorPrior:
    """Return what is held of wrong labels; `checked` labels are right."""
    if trust == "checked":
        return ErrorPrior(rates=np.zeros(1), confused=np.zeros(1, dtype=np.bool_), log_odds=np.zeros(1))
    rates = np.minimum(ERROR_RATES, MOST_NOISE * (n_classes - 1) / n_classes)
    log_odds = np.zeros(len(rates)) if trust == "normal" else -0.5 * ((rates - CROWD_MEAN) / CROWD_SD) ** 2
    return ErrorPrior(  # without errors both kinds are the same, so rate 0 stands once
        rates=np.concatenate([rates, rates[1:]]),
        confused=np.arange(2 * len(rates) - 1) >= len(rates),
        log_odds=np.concatenate([log_odds, log_odds[1:] + np.log(CONFUSION_ODDS)]),
    )


def label_trust(text: str) -> LabelTrust:
    """Return the named trust. Raises UserError for any other word."""
    for trust in LABEL_TRUSTS:
        if text == trust:
            return trust
    raise UserError(
        f"{text!r} is no way in which labels are made that we know.",
        f"Use one of: {', '.join(LABEL_TRUSTS)}.",
        option="label_trust",
    )
