"""Calibrated probability that a change is correct, given how well the models predict the text.

The posterior of the lattice assumes that the character models describe the text. Reference texts of the same kind do;
the built-in models were trained on other texts, and their posterior is overconfident. With the weight r of the
reference model in the mixture and the local surprisal u,

    p(correct) = r p + (1 - r) sigmoid(bias + slope logit(p) + surprisal_slope u + KIND_BIAS[kind of change])

The coefficients are a logistic regression over changes that the built-in models propose (``benchmarks/
correction_confidence.py``).
"""

from dataclasses import dataclass

import numpy as np

from conservator.decoders.edits import Change


@dataclass(frozen=True)
class CalibrationConfig:
    """Coefficients of the calibration."""

    bias: float = 2.71  # logit: intercept [LOG: text-without-language-coverage]
    slope: float = 0.51  # coefficient: of logit(p) [LOG: text-without-language-coverage]
    surprisal_slope: float = -4.72  # per nat: of the local surprisal [LOG: text-without-language-coverage]
    max_logit: float = 6.0  # logit: bound of logit(p), since rounding and pruning leave no information [numerical]
    # probability: less probable changes are not made without references [LOG: text-without-language-coverage]
    min_probability: float = 0.6


CALIBRATION = CalibrationConfig()
# logit: coefficient of each kind of change [LOG: text-without-language-coverage]
KIND_BIAS = {"letters": 0.0, "case": -1.96, "space": -0.18, "punctuation": -1.28}


def calibrate(probability: float, surprisal: float, kind: str, reference_weight: float) -> float:
    """Return the calibrated probability that a change is correct.

    Args:
        probability: Probability of the change in the lattice.
        surprisal: Local surprisal of the text, in nats.
        kind: Kind of the change, a key of ``KIND_BIAS``.
        reference_weight: Weight of reference texts in the mixture of character models, 0 to 1.
    """
    clipped = np.clip(probability, 1e-9, 1 - 1e-9)
    logit = np.clip(np.log(clipped) - np.log1p(-clipped), -CALIBRATION.max_logit, CALIBRATION.max_logit)
    activation = (
        CALIBRATION.bias + CALIBRATION.slope * logit + CALIBRATION.surprisal_slope * surprisal + KIND_BIAS[kind]
    )
    without_references = 1 / (1 + np.exp(-activation))
    return float(reference_weight * probability + (1 - reference_weight) * without_references)


def kind_of(change: Change) -> str:
    """Return the kind of a change: ``space``, ``case``, ``punctuation`` or ``letters``."""
    if not (change.seen + change.text).strip():
        return "space"
    if change.seen.casefold() == change.text.casefold():
        return "case"
    return "letters" if any(map(str.isalnum, change.seen + change.text)) else "punctuation"
