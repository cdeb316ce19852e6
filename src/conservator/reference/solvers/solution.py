"""The result of a solver."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Solution:
    """A field that maximises evidence, with the outcome of the solver.

    Attributes:
        field: (L, m), rows on the simplex.
        value: the objective at ``field``, nats.
        gap: bound of the distance from the optimum, as each solver defines it.
        converged: whether the gap met the tolerance within the allowed evaluations.
        evaluations: the number of evaluations of evidence and gradient.
        trace: the objective at every accepted field, if the solver records it.
    """

    field: Tensor
    value: float
    gap: float
    converged: bool
    evaluations: int
    trace: tuple[float, ...] = ()
