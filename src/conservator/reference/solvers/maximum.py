"""The maximum of evidence minus total variation over fields, with a certificate."""

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.numerics import compiled
from conservator.reference.evidence.evidence import Evidence
from conservator.reference.smoothing.simplex import project_to_simplex, simplex_prox_kernel
from conservator.reference.solvers.solution import Solution

Array = NDArray[np.float64]


def variation(field: Array) -> float:
    """Omega: sum_l |lambda_l - lambda_{l-1}|_1."""
    return float(np.abs(np.diff(field, axis=0)).sum())


def maximise(evidence: Evidence, tau: float, *, tolerance: float = 1e-3, max_evaluations: int = 3000) -> Solution:
    """Maximise C(lambda) - tau sum_l |lambda_l - lambda_{l-1}|_1 over the simplices.

    The method is accelerated proximal gradient ascent with the exact proximal map. It restarts when the objective
    decreases, and finds the step size by backtracking. The certificate is the gap of the linearised problem,

        max over z of  <g, z> - tau Omega(z)   minus   <g, lambda> - tau Omega(lambda),   g = dC(lambda)

    The maximum over z is at vertices, because on a chain the relaxation of a labelling problem is tight, so dynamic
    programming finds it exactly. ``value`` of the solution is C - tau Omega. Only for concave evidence does the gap
    bound the distance of ``value`` from the optimum.
    """
    if not 0 <= tau < np.inf:
        raise ConservatorError(f"tau must be finite and not negative, got {tau}")
    length, experts = evidence.shape

    def at(field: Array) -> tuple[float, Array]:
        value, gradient = evidence.value_and_gradient(torch.from_numpy(field))
        return float(value), gradient.numpy()

    prox = _Prox(length, experts)
    field = np.full((length, experts), 1 / experts)
    value, gradient = at(field)
    best, evaluations, step, momentum = field, 1, 1.0, 1.0
    objective = value - tau * variation(field)
    lookahead, lookahead_value, lookahead_gradient = field, value, gradient
    gap = _gap(gradient, field, tau)
    while gap > tolerance and evaluations < max_evaluations:
        moved = prox(lookahead + step * lookahead_gradient, tau * step, 1e-3 * step * min(gap, 1.0) * tolerance)
        moved_value, moved_gradient = at(moved)
        evaluations += 1
        difference = moved - lookahead
        bound = lookahead_value + (lookahead_gradient * difference).sum() - (difference**2).sum() / (2 * step)
        if moved_value < bound - 1e-12 * abs(bound):
            step /= 2
            continue
        moved_objective = moved_value - tau * variation(moved)
        if moved_objective < objective and momentum > 1:  # restart from the best field
            lookahead, lookahead_value, lookahead_gradient, momentum = best, value, gradient, 1.0
            continue
        next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        extrapolated = moved + (momentum - 1) / next_momentum * (moved - best)
        best, value, gradient, objective, momentum = moved, moved_value, moved_gradient, moved_objective, next_momentum
        gap = _gap(gradient, best, tau)
        lookahead = _on_simplex(extrapolated)
        lookahead_value, lookahead_gradient = at(lookahead)
        evaluations += 1
        step *= 1.1
    return Solution(torch.from_numpy(best), objective, gap, gap <= tolerance, evaluations)


class _Prox:
    """The proximal map of tau Omega on the simplices, for any input, warm-started from the previous call."""

    def __init__(self, length: int, experts: int) -> None:
        self.start = np.full((experts, length), 1 / experts)
        self.dual = np.zeros((experts, length))

    def __call__(self, field: Array, tau: float, accuracy: float) -> Array:
        target = np.ascontiguousarray(field.T)
        if tau == 0 or len(field) == 1:
            return np.ascontiguousarray(project_to_simplex(target).T)
        self.start, self.dual, _, _ = simplex_prox_kernel(target, tau, accuracy, 2000, self.start, self.dual)
        return np.ascontiguousarray(self.start.T)


def _on_simplex(field: Array) -> Array:
    clipped = field.clip(min=0)
    scaled: Array = clipped / clipped.sum(axis=1, keepdims=True)
    return scaled


def _gap(gradient: Array, field: Array, tau: float) -> float:
    best = _viterbi_kernel(np.ascontiguousarray(gradient), 2 * tau)
    return float(best - ((gradient * field).sum() - tau * variation(field)))


@compiled
def _viterbi_kernel(scores: Array, cost: float) -> float:
    """Return the maximum over labellings of sum_l scores[l, s_l] minus ``cost`` for every change of label."""
    length, labels = scores.shape
    value = scores[0].copy()
    for position in range(1, length):
        top = value.max() - cost
        for label in range(labels):
            value[label] = max(value[label], top) + scores[position, label]
    return float(value.max())
