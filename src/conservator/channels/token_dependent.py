"""The uneven mask channel: some tokens are lost more often than others, and the observation shows where."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from conservator.channels.channel import Channel, check_tokens, check_vocab_size
from conservator.channels.likelihood import Likelihood, pick
from conservator.channels.observation import Observation, Status
from conservator.errors import ConservatorError


@dataclass(frozen=True)
class UnevenMaskLikelihood(Likelihood):
    """The rate of each token at a lost position, a point mass at a visible one.

    Attributes:
        tokens: (..., L) the observed tokens; V where lost.
        rates: (V,) how often each token is lost.
    """

    tokens: Tensor
    rates: Tensor

    def __getitem__(self, index: Any) -> "UnevenMaskLikelihood":
        """The likelihood at some of the positions."""
        return UnevenMaskLikelihood(self.tokens[index], self.rates)

    @property
    def symbols(self) -> int:
        """V tokens and the mask."""
        return len(self.rates) + 1

    @property
    def erasure_is_informative(self) -> bool:
        """That a token was lost says which it may have been."""
        return True

    @property
    def lost(self) -> Tensor:
        """(..., L) True where the token is lost."""
        return self.tokens == len(self.rates)

    def table(self) -> Tensor:
        """Return log c_l(v): log r(v) at a lost position, log (1 - r(v)) at the token v of a visible one."""
        kept = self.tokens[..., None] == torch.arange(len(self.rates), device=self.tokens.device)
        table = torch.where(kept, torch.log1p(-self.rates), -torch.inf)
        return torch.where(self.lost[..., None], self.rates.log(), table)

    def log_evidence(self, log_probs: Tensor) -> Tensor:
        """Return log sum_v r(v) pi(v) where lost, log (1 - r(y)) pi(y) where visible."""
        tokens = self.tokens.masked_fill(self.lost, 0)
        visible = pick(log_probs, tokens) + torch.log1p(-self.rates)[tokens]
        return torch.where(self.lost, torch.logsumexp(self.rates.log() + log_probs, dim=-1), visible)


class TokenDependentMaskChannel(Channel):
    """Each token v becomes [MASK] with a probability r(v) of its own; every other token survives.

        p_c(y | v) = r(v) [y = MASK] + (1 - r(v)) [y = v]

    So at a lost position p(v | y) is proportional to r(v) p(v): a letter that ink fills easily is lost more often than
    it stands in the text. Only the proportions of the rates matter there. [MASK] is the output symbol V.
    """

    def __init__(self, rates: Tensor) -> None:
        """Take the rate (V,) of each token, all of them above 0 and below 1."""
        self.vocab_size = check_vocab_size(len(rates))
        if not bool(((rates > 0) & (rates < 1)).all()):
            raise ConservatorError("a token is lost with a rate that is not between 0 and 1")
        self.rates = rates.double()
        self.outputs = self.vocab_size + 1

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Replace each of ``tokens`` (..., L) by [MASK] with the probability of its rate."""
        tokens = check_tokens(tokens, self.vocab_size)
        drawn = torch.rand(tokens.shape, generator=generator, dtype=torch.float64, device=tokens.device)
        return self.observe(tokens.masked_fill(drawn < self.rates[tokens], self.vocab_size))

    def status(self, tokens: Tensor) -> Tensor:
        """Masked tokens are lost, all others known."""
        return (tokens == self.vocab_size).to(torch.uint8) * int(Status.LOST)

    def likelihood(self, tokens: Tensor) -> UnevenMaskLikelihood:
        """The rates at a masked token, a point mass at any other."""
        return UnevenMaskLikelihood(tokens, self.rates)
