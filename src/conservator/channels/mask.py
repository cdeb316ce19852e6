"""The mask channel: a token is lost, and the loss is seen."""

import math

import torch
from torch import Tensor

from conservator.channels.channel import Channel, Observation, check_rate, check_tokens, check_vocab_size, pick


class MaskChannel(Channel):
    """Each token becomes [MASK] with probability r, independently; every other token survives.

        p_c(y | v) = r [y = MASK] + (1 - r) [y = v]

    The likelihood is flat in v at a hidden position and a point mass at a visible one.
    [MASK] is the output symbol V.
    """

    def __init__(self, vocab_size: int, rate: float) -> None:
        """Make the channel for ``vocab_size`` tokens that are lost with probability ``rate``."""
        self.vocab_size = check_vocab_size(vocab_size)
        self.rate = check_rate(rate)
        self.mask_id = self.vocab_size
        self.outputs = self.vocab_size + 1
        self._log_lost = math.log(rate) if rate > 0 else -math.inf
        self._log_kept = math.log1p(-rate) if rate < 1 else -math.inf

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Hide each of ``tokens`` (..., L) with probability ``rate``."""
        tokens = check_tokens(tokens, self.vocab_size)
        lost = torch.rand(tokens.shape, generator=generator, device=tokens.device) < self.rate
        return self.observe(tokens.masked_fill(lost, self.mask_id))

    def observe(self, tokens: Tensor) -> Observation:
        """Take damaged ``tokens`` (..., L), in which V marks a lost token, as an observation."""
        tokens = check_tokens(tokens, self.outputs, "output alphabet")
        return Observation(tokens, tokens == self.mask_id, self)

    def log_likelihood(self, observation: Observation) -> Tensor:
        """Return log c_l(v): log r everywhere at a hidden position, a point mass at a visible one."""
        candidates = torch.arange(self.vocab_size, device=observation.tokens.device)
        kept = observation.tokens[..., None] == candidates
        table = torch.full(kept.shape, -math.inf, dtype=torch.float64, device=kept.device)
        table.masked_fill_(kept, self._log_kept)
        return table.masked_fill_(observation.hidden[..., None], self._log_lost)

    def log_evidence(self, observation: Observation, log_probs: Tensor) -> Tensor:
        """Return log r where hidden (Proposition mask_degeneracy), log (1 - r) pi(y) where visible."""
        visible = pick(log_probs, observation.tokens.masked_fill(observation.hidden, 0))
        return torch.where(observation.hidden, self._log_lost, visible + self._log_kept)
