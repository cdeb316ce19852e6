"""The mask channel: tokens are erased, and the observation shows which."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels.channel import Channel, check_rate, check_tokens, check_vocab_size
from conservator.channels.likelihood import Likelihood, pick
from conservator.channels.observation import Observation, Status


@dataclass(frozen=True)
class MaskLikelihood(Likelihood):
    """The likelihood is flat at a lost position, and a point mass at a visible one.

    Attributes:
        log_lost: log r.
        log_keep: log (1 - r).
    """

    log_lost: float
    log_keep: float

    @property
    def symbols(self) -> int:
        """V tokens and the mask."""
        return self.vocab_size + 1

    @property
    def lost_is_informative(self) -> bool:
        """False: every token is lost with the same probability."""
        return False

    def table(self) -> Tensor:
        """Return log c_l(v): log r everywhere at a lost position, log (1 - r) at the token of a visible one."""
        candidates = torch.arange(self.vocab_size, device=self.tokens.device)
        same = self.tokens[..., None] == candidates
        table = torch.full(same.shape, -math.inf, dtype=torch.float64, device=same.device)
        table.masked_fill_(same, self.log_keep)
        return table.masked_fill_(self.lost[..., None], self.log_lost)

    def log_evidence(self, log_probs: Tensor) -> Tensor:
        """Return log r where lost (Proposition mask_degeneracy), log (1 - r) pi(y) where visible."""
        visible = pick(log_probs, self.tokens.masked_fill(self.lost, 0))
        return torch.where(self.lost, self.log_lost, visible + self.log_keep)


class MaskChannel(Channel):
    """Each token becomes [MASK] with probability r, independently; every other token is kept.

        p_c(y | v) = r [y = MASK] + (1 - r) [y = v]

    [MASK] is the output symbol V.
    """

    def __init__(self, vocab_size: int, rate: float) -> None:
        """Make the channel for ``vocab_size`` tokens and the erasure probability ``rate``."""
        self.vocab_size = check_vocab_size(vocab_size)
        self.rate = check_rate(rate)
        self.mask_id = self.vocab_size
        self.outputs = self.vocab_size + 1

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Replace each of ``tokens`` (..., L) by [MASK] with probability ``rate``."""
        tokens = check_tokens(tokens, self.vocab_size)
        lost = torch.rand(tokens.shape, generator=generator, device=tokens.device) < self.rate
        return self.observe(tokens.masked_fill(lost, self.mask_id))

    def status(self, tokens: Tensor) -> Tensor:
        """Return LOST for masked tokens, KNOWN for all others."""
        return (tokens == self.mask_id).to(torch.uint8) * int(Status.LOST)

    def likelihood(self, tokens: Tensor) -> MaskLikelihood:
        """Return a likelihood that is flat at masked tokens, and a point mass at others."""
        log_lost = math.log(self.rate) if self.rate > 0 else -math.inf
        log_keep = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        return MaskLikelihood(tokens, self.vocab_size, log_lost, log_keep)
