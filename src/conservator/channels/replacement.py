"""The replacement channel: a token is overwritten, and nothing shows where."""

import math

import torch
from torch import Tensor

from conservator.channels.channel import Channel, Observation, check_rate, check_tokens, check_vocab_size, pick


class ReplacementChannel(Channel):
    """Each token is replaced with probability r by a uniform draw from the vocabulary.

        p_c(y | v) = (1 - r) [y = v] + r / V

    The draw may hit the token itself. Nothing is hidden: which tokens were replaced is not said.
    """

    def __init__(self, vocab_size: int, rate: float) -> None:
        """Make the channel for ``vocab_size`` tokens that are replaced with probability ``rate``."""
        self.vocab_size = self.outputs = check_vocab_size(vocab_size)
        self.rate = check_rate(rate)
        self._log_same = math.log(1 - rate + rate / vocab_size)
        self._log_other = math.log(rate / vocab_size) if rate > 0 else -math.inf

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Replace each of ``tokens`` (..., L) with probability ``rate``."""
        tokens = check_tokens(tokens, self.vocab_size)
        device = tokens.device
        struck = torch.rand(tokens.shape, generator=generator, device=device) < self.rate
        noise = torch.randint(self.vocab_size, tokens.shape, generator=generator, device=device)
        return self.observe(torch.where(struck, noise, tokens))

    def log_likelihood(self, observation: Observation) -> Tensor:
        """Return log c_l(v): log (1 - r + r / V) at v = y_l, log (r / V) elsewhere."""
        candidates = torch.arange(self.vocab_size, device=observation.tokens.device)
        same = observation.tokens[..., None] == candidates
        table = torch.full(same.shape, self._log_other, dtype=torch.float64, device=same.device)
        return table.masked_fill_(same, self._log_same)

    def log_evidence(self, observation: Observation, log_probs: Tensor) -> Tensor:
        """Return log ((1 - r) pi(y) + r / V) without the (L, V) table; ``log_probs`` must be normalised."""
        observed = pick(log_probs, observation.tokens)
        kept = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        return torch.logaddexp(observed + kept, torch.full_like(observed, self._log_other))
