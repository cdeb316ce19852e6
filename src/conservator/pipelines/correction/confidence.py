"""The probability that a change is right, given how well the models know the text.

The posterior of the lattice assumes that the character models describe the text. Reference texts of the same kind do;
the shipped models were trained on other texts, and their posterior is too confident. With the weight r of the reference
model in the mixture and the local surprisal u,

    p(right) = r p + (1 - r) sigmoid(BIAS + SLOPE logit(p) + SURPRISAL u + KIND[kind of change])

The coefficients are a logistic regression over changes that the shipped models propose (``benchmarks/
correction_confidence.py``).
"""

import numpy as np

from conservator.decoders.edits import Change

BIAS = 2.71
SLOPE = 0.51
SURPRISAL = -4.72  # per nat of local surprisal
KIND = {"letters": 0.0, "case": -1.96, "space": -0.18, "punctuation": -1.28}
LEAST = 0.6  # a change that is less likely right is not made: a wrong one costs more than a right one gains
LARGEST = 6.0  # of logit(p): float rounding and pruning leave no information beyond it


def calibrate(probability: float, surprisal: float, kind: str, reference_index: float) -> float:
    """The probability that a change is right.

    Args:
        probability: of the change by the lattice.
        surprisal: the local surprisal of the text, in nats.
        kind: of the change, a key of ``KIND``.
        reference_index: the weight of reference texts among the character models, 0 to 1.
    """
    share = np.clip(probability, 1e-9, 1 - 1e-9)
    logit = np.clip(np.log(share) - np.log1p(-share), -LARGEST, LARGEST)
    shipped = 1 / (1 + np.exp(-(BIAS + SLOPE * logit + SURPRISAL * surprisal + KIND[kind])))
    return float(reference_index * probability + (1 - reference_index) * shipped)


def kind_of(change: Change) -> str:
    """The kind of a change: of blanks, of case, of punctuation or of letters."""
    if not (change.seen + change.text).strip():
        return "space"
    if change.seen.casefold() == change.text.casefold():
        return "case"
    return "letters" if any(map(str.isalnum, change.seen + change.text)) else "punctuation"
