"""A composition: at every position, a mixture of log-linear pools."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from conservator.field.memory_gate import MemoryGate


@dataclass(frozen=True)
class Composition:
    """A mixture of pools at every position of N sequences.

        p(v) = sum_s share_{l,s} pi_{w_{l,s}}(v)

    A field is a mixture of one pool. The posterior of a lattice field is a mixture of the pools of the lattice states,
    weighted by their posterior probabilities.

    Attributes:
        share: (N, L, S) the weight of each pool in the mixture, rows on the simplex.
        weights: (N, L, S, m) the weight of each expert in each pool; may be an expanded view.
        gate: how the weight is shared with one more expert, which recalls text; None if there is none.
    """

    share: Tensor
    weights: Tensor
    gate: MemoryGate | None = None

    @classmethod
    def of_field(cls, field: Tensor) -> "Composition":
        """The pool at a field (N, L, m)."""
        return cls(torch.ones(*field.shape[:2], 1, dtype=field.dtype), field[:, :, None])

    @classmethod
    def of_states(cls, states: Tensor, weights: Tensor) -> "Composition":
        """The posterior predictive of ``states`` (N, L, S) with ``weights`` (S, m)."""
        return cls(states, weights.expand(*states.shape[:2], -1, -1))

    def mean(self) -> Tensor:
        """The mean weight of each of the m experts: (N, L, m), rows on the simplex."""
        total = torch.zeros_like(self.weights[:, :, 0])
        for state in range(self.share.shape[2]):  # state by state, because a table (N, L, S, m) would be large
            total += self.share[:, :, state, None] * self.weights[:, :, state]
        return total

    def log_probs(self, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
        """Mix the experts' log-probabilities ``log_probs`` (m, n, V) at n positions: (n, V), normalised.

        With trust, there is one more expert, the last.
        """
        if self.gate is not None:
            others = replace(self, gate=None).log_probs(log_probs[:-1], sequence, position)
            return self.gate.log_probs(others, log_probs[-1])
        share = self.share[sequence, position].to(log_probs.dtype)
        weights = self.weights[sequence, position].to(log_probs.dtype)
        total = torch.zeros_like(log_probs[0])
        for state in range(share.shape[1]):
            used = (share[:, state] > 0).nonzero()[:, 0]
            pool = torch.einsum("ni,inv->nv", weights[used, state], log_probs[:, used])
            total.index_add_(0, used, share[used, state, None] * torch.softmax(pool, dim=-1))
        return total.clamp_min(torch.finfo(total.dtype).tiny).log()

    def pruned(self, least: float) -> "Composition":
        """Without the pools that contain an expert whose mean weight at the position is below ``least``."""
        few = self.mean() < least
        share = self.share.clone()
        for state in range(share.shape[2]):
            share[:, :, state] *= ~((self.weights[:, :, state] > 0) & few).any(-1)
        total = share.sum(-1, keepdim=True)
        return replace(self, share=torch.where(total > 0.5, share / total, self.share))

    def asked(self) -> Tensor:
        """(N, L, m) the experts that are in some pool; with trust one more, who is asked everywhere."""
        used = torch.zeros(self.weights[:, :, 0].shape, dtype=torch.bool)
        for state in range(self.share.shape[2]):
            used |= (self.share[:, :, state, None] > 0) & (self.weights[:, :, state] > 0)
        return used if self.gate is None else functional.pad(used, (0, 1), value=True)

    def recall_weight(self, log_probs: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
        """The mean weight of the expert that recalls, in ``log_probs`` at n positions: (n,); 0 if there is none."""
        if self.gate is None:
            return torch.zeros(len(position), dtype=torch.float64)
        others = replace(self, gate=None).log_probs(log_probs[:-1], sequence, position)
        return self.gate.weight(others, log_probs[-1])
