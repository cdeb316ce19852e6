"""Lines 1 to 7 of Algorithm 1 for any estimate of the gradient: exponentiated gradient, alternating with smoothing."""

from collections.abc import Callable

import torch
from torch import Tensor

from conservator.reference.smoothing.smoother import Smoother

FLOOR = 1e-300  # weight: lower bound, because a smoother may return 0, whose logarithm is infinite [numerical]


def ascend(
    gradient: Callable[[Tensor], Tensor],
    shape: tuple[int, int],
    iterations: int,
    eta: float,
    smoother: Smoother,
    *,
    shared: bool = False,
) -> tuple[Tensor, tuple[float, ...]]:
    """Alternate equation (mw) and Smooth_tau, from the uniform field.

    Args:
        gradient: g at a field (L, m).
        shape: (L, m).
        iterations: R.
        eta: the step size.
        smoother: Smooth_tau.
        shared: whether all positions share a global weight: the gradient is averaged over positions, without smoothing.

    Returns:
        The field, and the largest change of a weight in each iteration; convergence is not guaranteed.
    """
    length, experts = shape
    lam = torch.full((length, experts), 1 / experts, dtype=torch.float64)
    changes = []
    for _ in range(iterations):
        ascent = gradient(lam)
        if shared:
            ascent = ascent.mean(0, keepdim=True).expand_as(ascent)
        moved = torch.softmax(lam.clamp_min(FLOOR).log() + eta * ascent, dim=1)
        smoothed = moved if shared else torch.from_numpy(smoother(moved.numpy()).field)
        changes.append(float((smoothed - lam).abs().max()))
        lam = smoothed
    return lam, tuple(changes)
