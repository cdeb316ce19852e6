"""Leave-one-out posterior and evidence: one position given the evidence of all other positions."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def leave_one_out_posterior(states: Array, emissions: Array) -> Array:
    """Compute the posterior of the states at each position, given the evidence of all other positions.

        c_l(s) = p(s_l = s | e_1 ... e_L) exp(-e_l(s)) / sum over u of p(s_l = u | e_1 ... e_L) exp(-e_l(u))

    Args:
        states: (..., S) the posterior given all evidence.
        emissions: (..., S) e_l(s).
    """
    with np.errstate(divide="ignore"):
        joint = np.log(states) - emissions
    unnormalised = np.exp(joint - joint.max(axis=-1, keepdims=True))
    probs: Array = unnormalised / unnormalised.sum(axis=-1, keepdims=True)
    return probs


def leave_one_out_evidence(states: Array, emissions: Array) -> Array:
    """Compute (...,) the log-probability of each observation, given the evidence of all other positions.

    Arguments as in ``leave_one_out_posterior``.
    """
    with np.errstate(divide="ignore"):
        joint = np.log(leave_one_out_posterior(states, emissions)) + emissions
    evidence: Array = np.logaddexp.reduce(joint, axis=-1)
    return evidence
