"""The proximal map of total variation on the simplex, equation (prox), for three or more experts."""

import numpy as np
from numpy.typing import NDArray

from conservator.numerics import compiled
from conservator.reference.smoothing.fused_lasso import fused_lasso_kernel

Array = NDArray[np.float64]


@compiled
def project_to_simplex(points: Array) -> Array:
    """Project each column of ``points`` (m, L) onto the simplex, in the Euclidean norm."""
    experts, length = points.shape
    projected = np.empty_like(points)
    ordered = np.empty(experts)
    for position in range(length):
        for expert in range(experts):  # insertion sort, descending: m is small
            rank = expert
            while rank > 0 and ordered[rank - 1] < points[expert, position]:
                ordered[rank] = ordered[rank - 1]
                rank -= 1
            ordered[rank] = points[expert, position]
        total, threshold = 0.0, 0.0
        for rank in range(experts):
            total += ordered[rank]
            candidate = (total - 1.0) / (rank + 1)
            if ordered[rank] > candidate:
                threshold = candidate
        for expert in range(experts):
            projected[expert, position] = max(points[expert, position] - threshold, 0.0)
    return projected


@compiled
def simplex_prox_kernel(
    target: Array, tau: float, tolerance: float, max_iterations: int, start: Array, dual: Array
) -> tuple[Array, Array, float, int]:
    """Run ADMM between the fused lasso of every expert and the projection of every position.

        min over lambda, mu of  1/2 |lambda - target|^2 + tau TV(lambda) + [mu on the simplex],  lambda = mu

    The fused lasso leaves q = (1 + rho)(argument - lambda) = D'w with |w| <= tau: a feasible point of the dual
    of the whole problem, whose value is 1/2 |p - target|^2 + <q, p> at p = projection of (target - q). Together
    with the feasible mu it certifies the gap, and by strong convexity |mu - optimum|^2 <= 2 gap.

    Args:
        target: (m, L): an expert's weights are contiguous here, unlike in a field.
        tau: the penalty, 0 < tau < infinity.
        tolerance: the solver stops when the gap is at most this.
        max_iterations: the largest number of iterations.
        start: (m, L) the initial mu.
        dual: (m, L) the initial scaled dual variable.

    Returns:
        mu (m, L), the scaled dual variable, the gap and the number of iterations.
    """
    # ADMM penalty and over-relaxation: the fastest on random fields, tau from 0.05 to 10 [LOG: admm-on-the-simplex]
    rho, relaxation = 5.0, 1.6
    experts = len(target)
    mu, u = start.copy(), dual.copy()
    smooth, q = np.empty_like(target), np.empty_like(target)
    gap, iteration = np.inf, 0
    while iteration < max_iterations and gap > tolerance:
        iteration += 1
        for expert in range(experts):
            argument = (target[expert] + rho * (mu[expert] - u[expert])) / (1.0 + rho)
            smooth[expert] = fused_lasso_kernel(argument, tau / (1.0 + rho))
            q[expert] = (1.0 + rho) * (argument - smooth[expert])
        relaxed = relaxation * smooth + (1.0 - relaxation) * mu + u
        mu = project_to_simplex(relaxed)
        u = relaxed - mu
        if iteration % 5 == 0 or iteration == max_iterations:
            p = project_to_simplex(target - q)
            primal = 0.5 * np.sum((mu - target) ** 2) + tau * np.sum(np.abs(mu[:, 1:] - mu[:, :-1]))
            gap = primal - 0.5 * np.sum((p - target) ** 2) - np.sum(q * p)
    return mu, u, gap, iteration
