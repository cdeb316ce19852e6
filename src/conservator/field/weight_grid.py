"""Lattices on the simplex, and Markov priors of fields whose values are lattice points."""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError

Array = NDArray[np.float64]
LARGEST = 4096  # states; the transition table of more would be too large


def simplex_grid(experts: int, parts: int = 2) -> Array:
    """All points of the simplex whose weights are whole multiples of 1/parts: (S, m), the vertices first.

    One part gives the vertices, two add the midpoints of edges.
    """
    if experts < 1 or parts < 1:
        raise ConservatorError(f"a lattice of {experts} experts in {parts} parts; both must be at least 1")
    points = []
    for chosen in combinations_with_replacement(range(experts), parts):
        points.append(np.bincount(chosen, minlength=experts) / parts)
        if len(points) > LARGEST:
            raise ConservatorError(f"a lattice of {experts} experts in {parts} parts has more than {LARGEST} points")
    return np.array(sorted(points, key=lambda point: (-point.max(), *-point)))


@dataclass(frozen=True)
class MarkovPrior:
    """A Markov chain of compositions along the sequence.

    Attributes:
        name: its kind and its parameters, for results.
        weights: (S, m) the composition of each state.
        initial: (S,) the distribution of the first state.
        transition: (S, S) from a state (row) to the next; rows sum to 1. None if the state never changes.
        regions: (S, m) how a state is attributed to experts, rows on the simplex: by its weights, or by its region if
            the prior has regions.
    """

    name: str
    weights: Array
    initial: Array
    transition: Array | None
    regions: Array


def constant(weights: Array) -> MarkovPrior:
    """One composition for the whole sequence, uniformly distributed over the lattice: the global weight, tau = inf."""
    states = len(weights)
    return MarkovPrior("constant", weights, np.full(states, 1 / states), None, weights)


def sticky(weights: Array, jump: float) -> MarkovPrior:
    """Stay in a state with probability 1 - jump, else draw one of all states uniformly."""
    _check_share(jump, "jump")
    states = len(weights)
    transition = np.full((states, states), jump / states) + (1 - jump) * np.eye(states)
    return MarkovPrior(f"sticky {jump:g}", weights, np.full(states, 1 / states), transition, weights)


def laplace(weights: Array, tau: float) -> MarkovPrior:
    """The paper's Laplace prior of increments, on the lattice: p(s' | s) proportional to exp(-tau |w_s' - w_s|_1)."""
    if not 0 <= tau < np.inf:
        raise ConservatorError(f"tau is {tau}; it must be finite and not negative (constant is the limit)")
    distance = np.abs(weights[:, None] - weights[None]).sum(-1)
    transition = np.exp(-np.minimum(tau * distance, 600.0))  # bounded: with probabilities of 0, messages could vanish
    transition /= transition.sum(axis=1, keepdims=True)
    states = len(weights)
    return MarkovPrior(f"laplace {tau:g}", weights, np.full(states, 1 / states), transition, weights)


def two_level(weights: Array, jump: float, resample: float, own: float) -> MarkovPrior:
    """Two levels: a region r that changes slowly, and a composition s that changes fast within a region.

        r' = r with probability 1 - ``jump``, else one of the other regions, uniformly
        s' = s with probability 1 - ``resample`` if r' = r, else s' is drawn from D(. | r')
        D(s | r) = ``own`` if s is the vertex of expert r, else (1 - ``own``) / (S - 1)

    Inside a region, another expert may predict some stretches better. The fast level s can follow it there, which helps
    restoration; the slow level r still attributes the whole region to one expert.
    """
    for value, name in ((jump, "jump"), (resample, "resample"), (own, "own")):
        _check_share(value, name)
    states, experts = weights.shape
    if experts == 1:
        return constant(weights)
    if experts * states > LARGEST:
        raise ConservatorError(f"{experts} regions of {states} states are more than {LARGEST}; take fewer parts")
    draw = np.full((experts, states), (1 - own) / (states - 1))  # D(s | r)
    draw[np.arange(experts), weights.argmax(axis=0)] = own
    inside = (1 - resample) * np.eye(states)[None] + resample * draw[:, None, :]  # (r, s, s')
    transition = np.empty((experts, states, experts, states))
    for region in range(experts):
        transition[region] = jump / (experts - 1) * draw
        transition[region, :, region] = (1 - jump) * inside[region]
    size = experts * states
    return MarkovPrior(
        f"two-level {jump:g} {resample:g} {own:g}",
        np.tile(weights, (experts, 1)),
        (draw / experts).reshape(size),
        transition.reshape(size, size),
        np.repeat(np.eye(experts), states, axis=0),
    )


def _check_share(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ConservatorError(f"{name} is {value}; it must lie between 0 and 1")
