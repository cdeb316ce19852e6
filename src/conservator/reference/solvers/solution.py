"""The result of a solver."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Solution:
    """A field that maximises evidence, and how it was reached.

    Attributes:
        field: (L, m), rows on the simplex.
        value: the objective at ``field``, nats.
        gap: how far ``field`` may be from the optimum, as each solver defines it.
        converged: whether the gap met the tolerance within the evaluations allowed.
        evaluations: how often evidence and gradient were computed.
        trace: the objective at every accepted field, if the solver keeps it.
    """

    field: Tensor
    value: float
    gap: float
    converged: bool
    evaluations: int
    trace: tuple[float, ...] = ()
