"""A composition: at every position, a mixture of log-linear pools."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from conservator.field.gate import Gate


@dataclass(frozen=True)
class Composition:
    """A mixture of pools at every position of N sequences.

        p(v) = sum_s p_{l,s} pi_{w_{l,s}}(v)

    A field is a mixture of one pool. The posterior of a field on a weight grid is a mixture of the pools of the grid
    states, weighted by their posterior probabilities.

    Attributes:
        state_probs: (N, L, S) p_{l,s}, the probability of each pool in the mixture, rows on the simplex.
        weights: (N, L, S, m) the weight of each expert in each pool; may be an expanded view.
        gates: the weights of the gated experts, which are the last experts. They are added one after the other.
    """

    state_probs: Tensor
    weights: Tensor
    gates: tuple[Gate, ...] = ()

    @classmethod
    def of_field(cls, field: Tensor) -> "Composition":
        """Make the composition of a single pool from a field (N, L, m)."""
        return cls(torch.ones(*field.shape[:2], 1, dtype=field.dtype), field[:, :, None])

    @classmethod
    def of_states(cls, states: Tensor, weights: Tensor) -> "Composition":
        """Make the posterior predictive of ``states`` (N, L, S) with grid ``weights`` (S, m)."""
        return cls(states, weights.expand(*states.shape[:2], -1, -1))

    def mean(self) -> Tensor:
        """Return the mean weight of each of the m experts: (N, L, m), rows on the simplex."""
        total = torch.zeros_like(self.weights[:, :, 0])
        for state in range(self.state_probs.shape[2]):  # state by state, because a table (N, L, S, m) would be large
            total += self.state_probs[:, :, state, None] * self.weights[:, :, state]
        return total

    def log_probs(self, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
        """Mix the experts' log-probabilities ``log_probs`` (m, n, V) at n positions: (n, V), normalised.

        The last of the m experts are the gated ones.
        """
        if self.gates:
            others = replace(self, gates=self.gates[:-1]).log_probs(log_probs[:-1], sequence, position)
            return self.gates[-1].log_probs(others, log_probs[-1])
        state_probs = self.state_probs[sequence, position].to(log_probs.dtype)
        weights = self.weights[sequence, position].to(log_probs.dtype)
        total = torch.zeros_like(log_probs[0])
        for state in range(state_probs.shape[1]):
            used = (state_probs[:, state] > 0).nonzero()[:, 0]
            pool = torch.einsum("ni,inv->nv", weights[used, state], log_probs[:, used])
            total.index_add_(0, used, state_probs[used, state, None] * torch.softmax(pool, dim=-1))
        return total.clamp_min(torch.finfo(total.dtype).tiny).log()

    def pruned(self, min_weight: float) -> "Composition":
        """Remove the pools that contain an expert whose mean weight at the position is below ``min_weight``."""
        below = self.mean() < min_weight
        state_probs = self.state_probs.clone()
        for state in range(state_probs.shape[2]):
            state_probs[:, :, state] *= ~((self.weights[:, :, state] > 0) & below).any(-1)
        total = state_probs.sum(-1, keepdim=True)
        return replace(self, state_probs=torch.where(total > 0.5, state_probs / total, self.state_probs))

    def active_experts(self) -> Tensor:
        """Return (N, L, m) True for experts with non-zero weight; gated experts are active everywhere."""
        used = torch.zeros(self.weights[:, :, 0].shape, dtype=torch.bool)
        for state in range(self.state_probs.shape[2]):
            used |= (self.state_probs[:, :, state, None] > 0) & (self.weights[:, :, state] > 0)
        return functional.pad(used, (0, len(self.gates)), value=True)

    def gate_weights(self, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
        """Return the mean weight of each of the g gated experts in ``log_probs`` at n positions: (n, g)."""
        if not self.gates:
            return torch.zeros(len(position), 0, dtype=torch.float64)
        earlier = replace(self, gates=self.gates[:-1])
        others = earlier.log_probs(log_probs[:-1], sequence, position)
        weight = self.gates[-1].weight(others, log_probs[-1])[:, None]
        return torch.cat([(1 - weight) * earlier.gate_weights(log_probs[:-1], sequence, position), weight], dim=1)
