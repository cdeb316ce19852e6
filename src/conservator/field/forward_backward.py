"""Forward-backward: the exact posterior of a Markov chain of compositions, in linear time."""

import math

import numpy as np
from numpy.typing import NDArray

from conservator.field.weight_grid import MarkovPrior
from conservator.numerics import compiled

Array = NDArray[np.float64]


def posterior(emissions: Array, prior: MarkovPrior, skipped: NDArray[np.int64] | None = None) -> tuple[float, Array]:
    """Return the log evidence and the posterior of the states at every position.

        log sum over s_1..s_L of p(s_1) prod_l p(s_l | s_{l-1}) exp(e_l(s_l)),   p(s_l = s | everything)

    Args:
        emissions: (L, S) e_l(s), the log-likelihood of the observation at l in state s; 0 where there is none.
        prior: the chain; a prior without a transition table keeps one state throughout.
        skipped: (L,) how many positions of the chain, all without evidence, are left out before each of these.

    Returns:
        The log evidence in nats, and (L, S) rows on the simplex.
    """
    if prior.transition is None:
        with np.errstate(divide="ignore"):
            joint = np.log(prior.initial) + emissions.sum(axis=0)
        evidence = _logsumexp(joint)
        return evidence, np.broadcast_to(np.exp(joint - evidence), emissions.shape)
    emissions = np.ascontiguousarray(emissions, dtype=np.float64)
    if skipped is None or not skipped.any():
        none = np.full(len(emissions), -1)
        return posterior_kernel(emissions, prior.initial, prior.transition, none, np.empty((0, 0, 0)))
    counts, which = np.unique(skipped, return_inverse=True)
    powers = np.stack([np.linalg.matrix_power(prior.transition, count) for count in counts.tolist()])
    return posterior_kernel(emissions, prior.initial, prior.transition, np.where(skipped > 0, which, -1), powers)


@compiled
def posterior_kernel(
    emissions: Array, initial: Array, transition: Array, jump: NDArray[np.int64], powers: Array
) -> tuple[float, Array]:
    """Run both passes, with every message rescaled.

    ``jump`` (L,) is the index in ``powers`` (K, S, S) of the transition over the positions that are left out before
    each position; -1 if none are.
    """
    length, states = emissions.shape
    forward = np.empty((length, states))
    evidence = 0.0
    predicted = initial.copy()
    for place in range(length):
        if jump[place] >= 0:
            # Not a matrix product, for which numba would need scipy.
            predicted = (predicted.reshape(-1, 1) * powers[jump[place]]).sum(axis=0)
        top = emissions[place].max()
        total = 0.0
        for state in range(states):
            forward[place, state] = predicted[state] * math.exp(emissions[place, state] - top)
            total += forward[place, state]
        evidence += top + math.log(total)
        predicted[:] = 0.0
        for state in range(states):
            weight = forward[place, state] / total
            forward[place, state] = weight
            if weight > 0.0:
                for other in range(states):
                    predicted[other] += weight * transition[state, other]
    backward = np.ones(states)
    carried = np.empty(states)
    for place in range(length - 1, -1, -1):
        total = 0.0
        for state in range(states):
            forward[place, state] *= backward[state]
            total += forward[place, state]
        forward[place] /= total
        if place > 0:
            top = emissions[place].max()
            for state in range(states):
                carried[state] = backward[state] * math.exp(emissions[place, state] - top)
            largest = 0.0
            for state in range(states):
                reached = 0.0
                for other in range(states):
                    reached += transition[state, other] * carried[other]
                backward[state] = reached
                largest = max(largest, reached)
            backward /= largest
            if jump[place] >= 0:
                backward = (powers[jump[place]] * backward).sum(axis=1)
    return evidence, forward


def _logsumexp(values: Array) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))
