"""The smoother contract, and the smoothers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from conservator.errors import ConservatorError
from conservator.reference.smoothing.fused_lasso import check_tau, flat_from, fused_lasso
from conservator.reference.smoothing.simplex import simplex_prox_kernel

Array = NDArray[np.float64]

# squared weight per position: duality gap at which a solver stops; by strong convexity the root-mean-square distance of
# a row to the optimum is then at most 1.4e-6 [numerical]
TOLERANCE = 1e-12
MAX_ITERATIONS = 50_000  # iterations: of ADMM [numerical]


@dataclass(frozen=True)
class Smoothed:
    """A smoothed field, with the outcome of the solver.

    Attributes:
        field: (L, m), rows on the simplex.
        gap: upper bound of the distance of the objective from the optimum; 0 for closed forms.
        iterations: of the solver; 0 for closed forms.
        converged: whether the gap met the tolerance.
    """

    field: Array
    gap: float = 0.0
    iterations: int = 0
    converged: bool = True


class Smoother(Protocol):
    """The step Smooth_tau of Algorithm 1."""

    def __call__(self, field: Array) -> Smoothed:
        """Smooth ``field`` (L, m), rows on the simplex, along its first axis."""


@dataclass(frozen=True)
class TotalVariation:
    """The proximal map of equation (prox), exact for every number of experts.

        argmin over fields of  1/2 sum_l |lambda_l - field_l|_2^2 + tau sum_l |lambda_l - lambda_{l-1}|_1

    Two experts: the scalar fused lasso of the first weight. Three or more: ADMM with a certified gap.
    """

    tau: float

    def __post_init__(self) -> None:
        """Check tau."""
        check_tau(self.tau)

    def __call__(self, field: Array) -> Smoothed:
        """Smooth ``field`` (L, m)."""
        field = check_field(field)
        length, experts = field.shape
        if experts == 2:
            first = fused_lasso(field[:, 0], self.tau)
            return Smoothed(np.stack([first, 1 - first], axis=1))
        if experts == 1 or length < 2 or self.tau == 0:
            return Smoothed(field.copy())
        if self.tau >= flat_from(field - field.mean(axis=0)):
            return Smoothed(np.broadcast_to(field.mean(axis=0), field.shape).copy())
        target, tolerance = np.ascontiguousarray(field.T), TOLERANCE * length
        smooth, _, gap, iterations = simplex_prox_kernel(
            target, self.tau, tolerance, MAX_ITERATIONS, target, np.zeros_like(target)
        )
        return Smoothed(np.ascontiguousarray(smooth.T), gap, iterations, gap <= tolerance)


@dataclass(frozen=True)
class PerColumn:
    """The paper's variant for three experts: the fused lasso of every column, then renormalised rows.

    For two experts it solves equation (prox); for more experts it is an approximation.
    """

    tau: float

    def __post_init__(self) -> None:
        """Check tau."""
        check_tau(self.tau)

    def __call__(self, field: Array) -> Smoothed:
        """Smooth ``field`` (L, m)."""
        columns = [fused_lasso(column, self.tau) for column in check_field(field).T]
        return Smoothed(renormalise(np.stack(columns, axis=1).clip(min=0)))


@dataclass(frozen=True)
class MovingAverage:
    """The paper's low-pass filter for naturally mixed documents.

        (1 - tau) lambda + tau * (uniform kernel of ``width`` on every column, zeros beyond the ends),

    with renormalised rows. ``tau`` is a mixing weight between 0 and 1 here, not a penalty.
    """

    tau: float
    width: int = 5

    def __post_init__(self) -> None:
        """Check tau and width."""
        if not 0 <= self.tau <= 1:
            raise ConservatorError(f"tau of a moving average must be between 0 and 1, got {self.tau}")
        if self.width < 1 or self.width % 2 == 0:
            raise ConservatorError(f"the width of a moving average must be odd and positive, got {self.width}")

    def __call__(self, field: Array) -> Smoothed:
        """Smooth ``field`` (L, m)."""
        field = check_field(field)
        half = self.width // 2
        padded = np.pad(field, ((half + 1, half), (0, 0))).cumsum(axis=0)
        average = (padded[self.width :] - padded[: -self.width]) / self.width
        return Smoothed(renormalise(((1 - self.tau) * field + self.tau * average).clip(min=0)))


def check_field(field: Array) -> Array:
    """Return ``field`` (L, m) as float64 with rows exactly on the simplex; raise if they are not close to it."""
    field = np.ascontiguousarray(field, dtype=np.float64)
    if field.ndim != 2 or 0 in field.shape:
        raise ConservatorError(f"a field must have the shape (positions, experts), got {field.shape}")
    off = ~((field >= -1e-6).all(axis=1) & (np.abs(field.sum(axis=1) - 1) <= 1e-6))
    if off.any():
        row = int(off.argmax())
        raise ConservatorError(f"rows of a field must be on the simplex, got {field[row].tolist()} in row {row}")
    return renormalise(field.clip(min=0))


def renormalise(field: Array) -> Array:
    """Divide every row by its sum."""
    scaled: Array = field / field.sum(axis=1, keepdims=True)
    return scaled
