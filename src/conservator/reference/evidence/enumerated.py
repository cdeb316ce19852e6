"""Exact evidence of contextual experts by enumeration: equation (seq_evidence), Proposition 1."""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.reference.evidence.evidence import check_energies, check_observations


class EnumeratedEvidence:
    """The sequence-level evidence, summed over all S = V^L sequences.

        Q_lambda(x) = exp(sum_{l,i} lambda_{l,i} phi_{i,l}(x)) / Z(lambda)
        L(lambda)   = (1/N) sum_n log sum_x p_c(y^(n) | x) Q_lambda(x)

    The channel must be memoryless here; Proposition 1 does not require that.
    """

    def __init__(self, energies: Tensor, sequences: Tensor, observation: Observation) -> None:
        """Take ``energies`` phi (m, L, S) on ``sequences`` (S, L) and an observation (N, L) or (L,)."""
        self.energies = check_energies(energies)
        if energies.shape[1:] != sequences.T.shape:
            shapes = f"{tuple(energies.shape)} and {tuple(sequences.shape)}"
            raise ConservatorError(f"energies and sequences must have the shapes (m, L, S) and (S, L), got {shapes}")
        observed = check_observations(observation, sequences.shape[1], observation.vocab_size)
        if observed.likelihood.symbols:  # equal observations are counted once
            _, index, count = torch.unique(observed.tokens, dim=0, return_inverse=True, return_counts=True)
            first = torch.zeros(len(count), dtype=torch.long).scatter_(0, index, torch.arange(len(index)))
            observed = observed[first]
        else:
            count = torch.ones(len(observed.tokens), dtype=torch.long)
        local = observed.likelihood.table()  # (distinct observations, L, V)
        positions = torch.arange(sequences.shape[1])
        self._log_channel = local[:, positions, sequences].sum(-1)  # (distinct observations, S)
        self._frequency = count.to(local.dtype) / count.sum()

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""
        experts, length, _ = self.energies.shape
        return length, experts

    def log_prior(self, field: Tensor) -> Tensor:
        """Return log Q_lambda(x): (S,), equation (seq_pool)."""
        return torch.log_softmax(torch.einsum("li,ils->s", field, self.energies), dim=0)

    def log_posterior(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Q_lambda(x | y), (distinct observations, S), and the log evidence of each observation."""
        joint = self._log_channel + self.log_prior(field)
        evidence = torch.logsumexp(joint, dim=1)
        return joint - evidence[:, None], evidence

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return L and equation (seq_gradient): posterior minus prior mean of each local energy."""
        posterior, evidence = self.log_posterior(field)
        shift = self._frequency @ posterior.exp() - self.log_prior(field).exp()
        return self._frequency @ evidence, torch.einsum("s,ils->li", shift, self.energies)
