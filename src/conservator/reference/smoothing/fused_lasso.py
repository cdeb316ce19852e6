"""The scalar fused lasso, equation (tv) for two experts: exact, in linear time."""

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.numerics import compiled


def fused_lasso(values: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """Minimise 1/2 sum_l (a_l - values_l)^2 + tau sum_{l >= 2} |a_l - a_{l-1}|.

    The method is dynamic programming over the derivative of the value function, which is piecewise linear and clipped
    to [-tau, tau] from one position to the next (Johnson, "A dynamic programming algorithm for the fused lasso
    and L0-segmentation", 2013). Each position adds two knots and a knot is removed at most once, so the cost is
    linear for every input; the direct algorithm that the paper cites (Condat 2013) solves the same problem
    faster on noise, but takes superlinear time on long ramps (``benchmarks/smoothing.py``).

    Args:
        values: (L,) finite.
        tau: the penalty, at least 0; infinity gives the mean.

    Returns:
        (L,) the unique minimiser.
    """
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise ConservatorError(f"values must be a finite vector, got the shape {values.shape}")
    tau = check_tau(tau)
    if tau == 0 or len(values) < 2:
        return values.copy()
    mean = values.mean()
    centred = values - mean  # a large offset would reduce precision
    if tau >= flat_from(centred):
        return np.full_like(values, mean)
    smooth: NDArray[np.float64] = mean + fused_lasso_kernel(centred, tau)
    return smooth


def flat_from(centred: NDArray[np.float64]) -> float:
    """Return the smallest tau at which the fused lasso of values with mean 0 (along the first axis) is constant."""
    return float(np.abs(np.cumsum(centred, axis=0)).max())


def check_tau(tau: float) -> float:
    """Return the smoothing strength; raise unless it is at least 0 (nan is not)."""
    if not tau >= 0:
        raise ConservatorError(f"the smoothing strength tau must be at least 0, got {tau}")
    return float(tau)


@compiled
def fused_lasso_kernel(values: NDArray[np.float64], tau: float) -> NDArray[np.float64]:
    """Run the dynamic program for at least two values and 0 < tau < infinity.

    The derivative of the value function at position l is slope * b + offset left of its first knot; crossing
    a knot adds the knot's slope and offset. ``low[l]`` and ``high[l]`` are where it reaches -tau and tau:
    the best a_l given a_{l+1} is a_{l+1} clipped to [low, high].
    """
    length = len(values)
    knot = np.empty(2 * length)
    slope = np.empty(2 * length)
    offset = np.empty(2 * length)
    low = np.empty(length)
    high = np.empty(length)
    first, last = length, length - 1  # knots in use: knot[first] <= ... <= knot[last]
    for position in range(length):
        # The message from the left is clipped to -tau before the first knot and tau after the last one.
        edge = 0.0 if position == 0 else tau
        target = 0.0 if position == length - 1 else tau
        left_slope, left_offset = 1.0, -values[position] - edge
        while first <= last and left_slope * knot[first] + left_offset <= -target:
            left_slope += slope[first]
            left_offset += offset[first]
            first += 1
        low[position] = (-target - left_offset) / left_slope
        right_slope, right_offset = 1.0, -values[position] + edge
        while last >= first and right_slope * knot[last] + right_offset >= target:
            right_slope -= slope[last]
            right_offset -= offset[last]
            last -= 1
        high[position] = (target - right_offset) / right_slope
        first -= 1
        knot[first], slope[first], offset[first] = low[position], left_slope, left_offset + tau
        last += 1
        knot[last], slope[last], offset[last] = high[position], -right_slope, tau - right_offset
    solution = np.empty(length)
    solution[length - 1] = low[length - 1]
    for position in range(length - 2, -1, -1):
        solution[position] = min(max(solution[position + 1], low[position]), high[position])
    return solution
