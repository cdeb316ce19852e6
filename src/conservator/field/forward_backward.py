"""Forward-backward: the exact posterior of a Markov chain of compositions, in linear time."""

import math

import numpy as np
from numpy.typing import NDArray

from conservator.field.weight_grid import MarkovPrior
from conservator.numerics import compiled

Array = NDArray[np.float64]


def posterior(emissions: Array, prior: MarkovPrior, skipped: NDArray[np.int64] | None = None) -> tuple[float, Array]:
    """Compute the log evidence and the posterior of the states at every position.

        log sum over s_1..s_L of p(s_1) prod_l p(s_l | s_{l-1}) exp(e_l(s_l)),   p(s_l = s | e_1 ... e_L)

    Args:
        emissions: (L, S) e_l(s), the log-likelihood of the observation at l in state s; 0 without an observation.
        prior: the Markov chain; without a transition table, the state is constant.
        skipped: (L,) the number of positions of the chain without evidence that are omitted before each position.

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
        no_jumps = np.full(len(emissions), -1)
        return posterior_kernel(emissions, prior.initial, prior.transition, no_jumps, np.empty((0, 0, 0)))
    counts, index = np.unique(skipped, return_inverse=True)
    powers = np.stack([np.linalg.matrix_power(prior.transition, count) for count in counts.tolist()])
    return posterior_kernel(emissions, prior.initial, prior.transition, np.where(skipped > 0, index, -1), powers)


@compiled
def posterior_kernel(
    emissions: Array, initial: Array, transition: Array, jump: NDArray[np.int64], powers: Array
) -> tuple[float, Array]:
    """Run the forward and the backward pass, and rescale every message.

    ``jump`` (L,) is the index in ``powers`` (K, S, S) of the transition over the positions that are omitted before each
    position; -1 if none is omitted.
    """
    length, states = emissions.shape
    forward = np.empty((length, states))
    evidence = 0.0
    predicted = initial.copy()
    for position in range(length):
        if jump[position] >= 0:
            # Not a matrix product: numba would need scipy for it.
            predicted = (predicted.reshape(-1, 1) * powers[jump[position]]).sum(axis=0)
        top = emissions[position].max()
        total = 0.0
        for state in range(states):
            forward[position, state] = predicted[state] * math.exp(emissions[position, state] - top)
            total += forward[position, state]
        evidence += top + math.log(total)
        predicted[:] = 0.0
        for state in range(states):
            weight = forward[position, state] / total
            forward[position, state] = weight
            if weight > 0.0:
                for target in range(states):
                    predicted[target] += weight * transition[state, target]
    backward = np.ones(states)
    weighted = np.empty(states)
    for position in range(length - 1, -1, -1):
        total = 0.0
        for state in range(states):
            forward[position, state] *= backward[state]
            total += forward[position, state]
        forward[position] /= total
        if position > 0:
            top = emissions[position].max()
            for state in range(states):
                weighted[state] = backward[state] * math.exp(emissions[position, state] - top)
            largest = 0.0
            for state in range(states):
                message = 0.0
                for target in range(states):
                    message += transition[state, target] * weighted[target]
                backward[state] = message
                largest = max(largest, message)
            backward /= largest
            if jump[position] >= 0:
                backward = (powers[jump[position]] * backward).sum(axis=1)
    return evidence, forward


def _logsumexp(values: Array) -> float:
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))
