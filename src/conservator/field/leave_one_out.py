"""Posterior and evidence of one position given the evidence of all others."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def leave_out(states: Array, emissions: Array) -> Array:
    """The posterior of the states at each position, given the evidence of all others.

        c_l(s) = p(s_l = s | e_1 ... e_L) exp(-e_l(s)) / sum over u of p(s_l = u | e_1 ... e_L) exp(-e_l(u))

    Args:
        states: (..., S) the posterior, given all evidence.
        emissions: (..., S) e_l(s).
    """
    with np.errstate(divide="ignore"):
        joint = np.log(states) - emissions
    law = np.exp(joint - joint.max(axis=-1, keepdims=True))
    left: Array = law / law.sum(axis=-1, keepdims=True)
    return left


def left_out_evidence(states: Array, emissions: Array) -> Array:
    """(...,) the log-probability of what was observed at each position, given the evidence of all others.

    It takes what ``leave_out`` takes.
    """
    with np.errstate(divide="ignore"):
        joint = np.log(leave_out(states, emissions)) + emissions
    evidence: Array = np.logaddexp.reduce(joint, axis=-1)
    return evidence
