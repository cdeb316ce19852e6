"""The replacement channel: tokens are overwritten, and the observation does not show which."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels.channel import Channel, check_rate, check_tokens, check_vocab_size
from conservator.channels.likelihood import Likelihood, pick
from conservator.channels.observation import Observation, Status


@dataclass(frozen=True)
class ReplacementLikelihood(Likelihood):
    """The likelihood is high at the observed token and low at all others; flat where nothing was observed.

    Attributes:
        rate: r, the replacement probability.
    """

    rate: float

    @property
    def symbols(self) -> int:
        """V tokens."""
        return self.vocab_size

    @property
    def log_other(self) -> float:
        """The value of log (r / V)."""
        return math.log(self.rate / self.vocab_size) if self.rate > 0 else -math.inf

    def table(self) -> Tensor:
        """Return log c_l(v): log (1 - r + r / V) at v = y_l, log (r / V) elsewhere; 0 where lost."""
        candidates = torch.arange(self.vocab_size, device=self.tokens.device)
        same = self.tokens[..., None] == candidates
        table = torch.full(same.shape, self.log_other, dtype=torch.float64, device=same.device)
        table.masked_fill_(same, math.log(1 - self.rate + self.rate / self.vocab_size))
        return table.masked_fill_(self.lost[..., None], 0.0)

    def log_evidence(self, log_probs: Tensor) -> Tensor:
        """Return log ((1 - r) pi(y) + r / V) without the table, 0 where lost; ``log_probs`` must be normalised."""
        observed = pick(log_probs, self.tokens.masked_fill(self.lost, 0))
        log_keep = math.log1p(-self.rate) if self.rate < 1 else -math.inf
        evidence = torch.logaddexp(observed + log_keep, torch.full_like(observed, self.log_other))
        return evidence.masked_fill(self.lost, 0.0)


class ReplacementChannel(Channel):
    """Each token is replaced with probability r by a uniform draw from the vocabulary.

        p_c(y | v) = (1 - r) [y = v] + r / V

    The draw may equal the token, and the observation does not show which tokens were replaced. A document may also have
    marks: the symbol V stands for a token that was lost in another way, and its likelihood is flat.
    """

    def __init__(self, vocab_size: int, rate: float) -> None:
        """Make the channel for ``vocab_size`` tokens and the replacement probability ``rate``."""
        self.vocab_size = self.outputs = check_vocab_size(vocab_size)
        self.rate = check_rate(rate)

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Replace each of ``tokens`` (..., L) with probability ``rate``."""
        tokens = check_tokens(tokens, self.vocab_size)
        device = tokens.device
        replaced = torch.rand(tokens.shape, generator=generator, device=device) < self.rate
        noise = torch.randint(self.vocab_size, tokens.shape, generator=generator, device=device)
        return self.observe(torch.where(replaced, noise, tokens))

    def status(self, tokens: Tensor) -> Tensor:
        """Return UNCERTAIN for every observed token, LOST for the symbol V."""
        return torch.where(tokens == self.vocab_size, Status.LOST, Status.UNCERTAIN).to(torch.uint8)

    def likelihood(self, tokens: Tensor) -> ReplacementLikelihood:
        """Return a likelihood that is high at the observed token, and flat where lost."""
        return ReplacementLikelihood(tokens, self.vocab_size, self.rate)
