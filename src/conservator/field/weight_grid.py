"""Weight grids on the simplex, and Markov priors of fields whose values are grid points."""

from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError

Array = NDArray[np.float64]
MAX_STATES = 4096  # states: limits the size of the transition table [safety limit]
MAX_LOG_RATIO = 600.0  # nats: bounds Laplace log-ratios; with probabilities of 0, messages could vanish [numerical]


def simplex_grid(experts: int, resolution: int = 2) -> Array:
    """Return all points of the simplex whose weights are multiples of 1/resolution: (S, m), the vertices first.

    The resolution 1 gives the vertices; 2 adds the midpoints of edges.
    """
    if experts < 1 or resolution < 1:
        raise ConservatorError(f"experts and resolution must be at least 1, got {experts} and {resolution}")
    points = []
    for chosen in combinations_with_replacement(range(experts), resolution):
        points.append(np.bincount(chosen, minlength=experts) / resolution)
        if len(points) > MAX_STATES:
            raise ConservatorError(
                f"a weight grid may have at most {MAX_STATES} points; {experts} experts with resolution {resolution} "
                "have more. Use a lower resolution"
            )
    return np.array(sorted(points, key=lambda point: (-point.max(), *-point)))


@dataclass(frozen=True)
class MarkovPrior:
    """A Markov chain of compositions along the sequence.

    Attributes:
        name: kind and parameters, for results.
        weights: (S, m) the composition of each state.
        initial: (S,) the distribution of the first state.
        transition: (S, S) from a state (row) to the next; rows sum to 1. None if the state is constant.
        regions: (S, m) the attribution of each state to experts, rows on the simplex: its domain segment if the prior
            has domain segments, else its weights.
    """

    name: str
    weights: Array
    initial: Array
    transition: Array | None
    regions: Array


def constant(weights: Array) -> MarkovPrior:
    """One composition for the whole sequence, uniformly distributed over the grid: the global weight, tau = inf."""
    states = len(weights)
    return MarkovPrior("constant", weights, np.full(states, 1 / states), None, weights)


def sticky(weights: Array, jump: float) -> MarkovPrior:
    """Keep the state with probability 1 - jump, else draw one of all states uniformly."""
    _check_probability(jump, "jump")
    states = len(weights)
    transition = np.full((states, states), jump / states) + (1 - jump) * np.eye(states)
    return MarkovPrior(f"sticky {jump:g}", weights, np.full(states, 1 / states), transition, weights)


def laplace(weights: Array, tau: float) -> MarkovPrior:
    """The paper's Laplace prior of increments, on the grid: p(s' | s) proportional to exp(-tau |w_s' - w_s|_1)."""
    if not 0 <= tau < np.inf:
        raise ConservatorError(
            f"tau must be finite and not negative, got {tau}; for infinite tau, use the constant prior"
        )
    distance = np.abs(weights[:, None] - weights[None]).sum(-1)
    transition = np.exp(-np.minimum(tau * distance, MAX_LOG_RATIO))
    transition /= transition.sum(axis=1, keepdims=True)
    states = len(weights)
    return MarkovPrior(f"laplace {tau:g}", weights, np.full(states, 1 / states), transition, weights)


def two_level(weights: Array, jump: float, resample: float, vertex_prob: float) -> MarkovPrior:
    """Two levels: a domain segment r that changes slowly, and a composition s that changes fast within a segment.

        r' = r with probability 1 - ``jump``, else one of the other experts' segments, uniformly
        s' = s with probability 1 - ``resample`` if r' = r, else s' is drawn from D(. | r')
        D(s | r) = ``vertex_prob`` if s is the vertex of expert r, else (1 - ``vertex_prob``) / (S - 1)

    Within a segment, another expert may predict some spans better. The fast level s follows it there, which improves
    restoration; the slow level r still attributes the whole segment to one expert.
    """
    for value, name in ((jump, "jump"), (resample, "resample"), (vertex_prob, "vertex_prob")):
        _check_probability(value, name)
    states, experts = weights.shape
    if experts == 1:
        return constant(weights)
    if experts * states > MAX_STATES:
        raise ConservatorError(
            f"a two-level prior may have at most {MAX_STATES} states, got {experts} experts times {states} grid "
            "states; use a lower resolution"
        )
    draw = np.full((experts, states), (1 - vertex_prob) / (states - 1))  # D(s | r)
    draw[np.arange(experts), weights.argmax(axis=0)] = vertex_prob
    inside = (1 - resample) * np.eye(states)[None] + resample * draw[:, None, :]  # (r, s, s')
    transition = np.empty((experts, states, experts, states))
    for segment in range(experts):
        transition[segment] = jump / (experts - 1) * draw
        transition[segment, :, segment] = (1 - jump) * inside[segment]
    size = experts * states
    return MarkovPrior(
        f"two-level {jump:g} {resample:g} {vertex_prob:g}",
        np.tile(weights, (experts, 1)),
        (draw / experts).reshape(size),
        transition.reshape(size, size),
        np.repeat(np.eye(experts), states, axis=0),
    )


def _check_probability(value: float, name: str) -> None:
    if not 0 < value < 1:
        raise ConservatorError(f"{name} must be between 0 and 1, got {value}")
