"""Exponentiated gradient on the evidence: equation (mw)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError
from conservator.reference.evidence.evidence import Evidence
from conservator.reference.solvers.solution import Solution

FLOOR = 1e-12  # weight: lower bound; from 1e-300 a weight would need thousands of steps to recover [numerical]
MAX_ETA = 1e6  # step size: upper bound; at a maximum of the evidence the step size would overflow [numerical]


@dataclass(frozen=True)
class State:
    """The state of the iteration.

    Attributes:
        field: (L, m) lambda^(s), rows on the simplex.
        value: L(lambda^(s)), nats.
        gradient: (L, m) g^(s).
        eta: (L, 1) the next step sizes.
    """

    field: Tensor
    value: float
    gradient: Tensor
    eta: Tensor

    @property
    def gap(self) -> float:
        """Max over l of (max_i g_{l,i} - sum_i lambda_{l,i} g_{l,i}).

        It is zero if and only if no direction on the simplex improves the evidence to first order.
        """
        gaps = self.gradient.max(dim=1).values - (self.field * self.gradient).sum(dim=1)
        return float(gaps.max())


def init(evidence: Evidence, eta: float = 1.0) -> State:
    """Start from the uniform field, line 1 of Algorithm 1."""
    length, experts = evidence.shape
    field = torch.full((length, experts), 1 / experts, dtype=torch.float64)
    value, gradient = evidence.value_and_gradient(field)
    if not torch.isfinite(value):
        raise ConservatorError("the observation is impossible: its probability under the experts and the channel is 0")
    return State(field, float(value), gradient, torch.full((length, 1), eta, dtype=torch.float64))


def step(state: State, evidence: Evidence) -> tuple[State, bool]:
    """Take one mirror ascent step, line 5 of Algorithm 1, unless it decreases the evidence.

        lambda^(s+1)_{l,i} proportional to lambda^(s)_{l,i} exp(eta_l g_{l,i})

    Each position has its own step size. It grows by a fifth if the evidence still increases along the step, and is
    halved if the step passed the maximum. If the total evidence decreases, the step is rejected: the field is unchanged
    and all step sizes are halved.

    Returns:
        The next state, and whether the step was accepted.
    """
    field = torch.softmax(state.field.log() + state.eta * state.gradient, dim=1).clamp_min(FLOOR)
    field /= field.sum(dim=1, keepdim=True)
    value, gradient = evidence.value_and_gradient(field)
    if not value >= state.value - 1e-14 * abs(state.value):  # a decrease by more than rounding, or nan
        return State(state.field, state.value, state.gradient, state.eta / 2), False
    rising = ((field - state.field) * gradient).sum(dim=1, keepdim=True) >= 0
    eta = torch.where(rising, 1.2 * state.eta, 0.5 * state.eta).clamp_max(MAX_ETA)
    return State(field, float(value), gradient, eta), True


def infer_field(evidence: Evidence, *, tolerance: float = 1e-6, max_evaluations: int = 10_000) -> Solution:
    """Maximise the evidence over the field, until the gap is at most ``tolerance`` nats.

    The evidence must be exact, not estimated; the field is not smoothed. The evidence need not be concave: the result
    is a stationary field. ``gap`` of the solution is that of ``State``, and its ``trace`` never decreases.
    """
    state = init(evidence)
    trace, evaluations = [state.value], 1
    while state.gap > tolerance and evaluations < max_evaluations:
        state, accepted = step(state, evidence)
        evaluations += 1
        if accepted:
            trace.append(state.value)
    return Solution(state.field, state.value, state.gap, state.gap <= tolerance, evaluations, tuple(trace))
