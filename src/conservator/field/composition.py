"""What is believed of a field: at every position a mixture of pools."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Composition:
    """A mixture of pools at every position of N sequences.

        p(v) = sum_s share_{l,s} pi_{w_{l,s}}(v)

    A field is the mixture of one; the posterior of a lattice field mixes its states, each in proportion to its
    probability.

    Attributes:
        share: (N, L, S) rows on the simplex.
        weights: (N, L, S, m), may be a view that repeats itself.
    """

    share: Tensor
    weights: Tensor

    @classmethod
    def of_field(cls, field: Tensor) -> "Composition":
        """The pool at a field (N, L, m)."""
        return cls(torch.ones(*field.shape[:2], 1, dtype=field.dtype), field[:, :, None])

    @classmethod
    def of_states(cls, states: Tensor, weights: Tensor) -> "Composition":
        """The posterior predictive of ``states`` (N, L, S) with ``weights`` (S, m)."""
        return cls(states, weights.expand(*states.shape[:2], -1, -1))

    def mean(self) -> Tensor:
        """The mean weight of each expert: (N, L, m), rows on the simplex."""
        total = torch.zeros_like(self.weights[:, :, 0])
        for state in range(self.share.shape[2]):  # no table of all states and experts at every position
            total += self.share[:, :, state, None] * self.weights[:, :, state]
        return total

    def log_probs(self, said: Tensor, sequence: Tensor, position: Tensor) -> Tensor:
        """Mix what the experts ``said`` (m, n, V) of n positions: (n, V) normalised log-probabilities."""
        share = self.share[sequence, position].to(said.dtype)
        weights = self.weights[sequence, position].to(said.dtype)
        total = torch.zeros_like(said[0])
        for state in range(share.shape[1]):
            used = (share[:, state] > 0).nonzero()[:, 0]
            pool = torch.einsum("ni,inv->nv", weights[used, state], said[:, used])
            total.index_add_(0, used, share[used, state, None] * torch.softmax(pool, dim=-1))
        return total.clamp_min(torch.finfo(total.dtype).tiny).log()
