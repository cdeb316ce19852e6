"""Exact evidence of position-factorised experts: equation (evidence), Propositions 2 and 3."""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.field.pool import log_pool
from conservator.reference.evidence.evidence import check_energies, check_observations


class FactorisedEvidence:
    """The evidence of N observations that share one field, under a memoryless channel.

        L(lambda) = sum_l (1/N) sum_n log sum_v c_{n,l}(v) pi_{lambda_l,l}(v)

    The positions decouple. If there are more observations than symbols, and the likelihood depends on the symbol alone,
    only the frequencies of the symbols matter: the cost is O(min(N, symbols) L V).
    """

    def __init__(self, log_probs: Tensor, observation: Observation) -> None:
        """Take ``log_probs`` (m, L, V) of the experts and an observation of shape (N, L) or (L,)."""
        self.log_probs = check_energies(log_probs)
        _, length, vocab_size = log_probs.shape
        observed = check_observations(observation, length, vocab_size)
        frequency = torch.full(observed.tokens.shape, 1 / len(observed.tokens), dtype=torch.float64)
        symbols = max(observed.likelihood.symbols, int(observed.tokens.max()) + 1)
        if len(frequency) <= symbols or not observed.likelihood.symbols:
            self._likelihood, self._frequency = observed.likelihood, frequency
            return
        # For every symbol and position, one observation with that symbol represents all of them.
        self._frequency = torch.zeros(symbols, length, dtype=torch.float64).scatter_add_(0, observed.tokens, frequency)
        rows = torch.arange(len(frequency))[:, None].expand(frequency.shape)
        first = torch.zeros(symbols, length, dtype=torch.long).scatter_(0, observed.tokens, rows)
        self._likelihood = observed.likelihood[first, torch.arange(length)]

    @property
    def shape(self) -> tuple[int, int]:
        """(L, m): positions and experts of the field."""
        experts, length, _ = self.log_probs.shape
        return length, experts

    def value_and_gradient(self, field: Tensor) -> tuple[Tensor, Tensor]:
        """Return L and equation (gradient): the mean of a_i = log pi_i under gamma minus that under the pool."""
        prior = log_pool(self.log_probs, field)
        evidence = self._likelihood.log_evidence(prior)
        occurs = self._frequency > 0  # the likelihood of a symbol that does not occur is that of another symbol
        value = torch.where(occurs, self._frequency * evidence, 0.0).sum()
        posterior = self._likelihood.log_posterior(prior).exp()
        posterior = torch.where(occurs[..., None], self._frequency[..., None] * posterior, 0.0).sum(0)
        return value, torch.einsum("lv,ilv->li", posterior - prior.exp(), self.log_probs)
