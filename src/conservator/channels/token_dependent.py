"""The mask channel with token-dependent rates: the erasure probability depends on the token."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels.channel import Channel, check_tokens, check_vocab_size
from conservator.channels.likelihood import Likelihood, pick
from conservator.channels.observation import Observation, Status
from conservator.errors import ConservatorError


@dataclass(frozen=True)
class TokenDependentMaskLikelihood(Likelihood):
    """The likelihood is the rate of each token at a lost position, and a point mass at a visible one.

    Attributes:
        rates: (V,) the erasure probability of each token.
    """

    rates: Tensor

    @property
    def symbols(self) -> int:
        """V tokens and the mask."""
        return self.vocab_size + 1

    def table(self) -> Tensor:
        """Return log c_l(v): log r(v) at a lost position, log (1 - r(v)) at the token v of a visible one."""
        same = self.tokens[..., None] == torch.arange(self.vocab_size, device=self.tokens.device)
        table = torch.where(same, torch.log1p(-self.rates), -torch.inf)
        return torch.where(self.lost[..., None], self.rates.log(), table)

    def log_evidence(self, log_probs: Tensor) -> Tensor:
        """Return log sum_v r(v) pi(v) where lost, log (1 - r(y)) pi(y) where visible."""
        tokens = self.tokens.masked_fill(self.lost, 0)
        visible = pick(log_probs, tokens) + torch.log1p(-self.rates)[tokens]
        return torch.where(self.lost, torch.logsumexp(self.rates.log() + log_probs, dim=-1), visible)


class TokenDependentMaskChannel(Channel):
    """Each token v becomes [MASK] with probability r(v); every other token is kept.

        p_c(y | v) = r(v) [y = MASK] + (1 - r(v)) [y = v]

    At a lost position p(v | y) is proportional to r(v) p(v), so the erasure itself is informative: letters that ink
    fills easily are overrepresented. Only ratios of rates matter there. [MASK] is the output symbol V.
    """

    def __init__(self, rates: Tensor) -> None:
        """Make the channel with ``rates`` (V,), the erasure probability of each token, strictly between 0 and 1."""
        self.vocab_size = check_vocab_size(len(rates))
        if not bool(((rates > 0) & (rates < 1)).all()):
            raise ConservatorError("the rates of all tokens must be strictly between 0 and 1")
        self.rates = rates.double()
        self.outputs = self.vocab_size + 1

    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Replace each of ``tokens`` (..., L) by [MASK] with its rate as probability."""
        tokens = check_tokens(tokens, self.vocab_size)
        drawn = torch.rand(tokens.shape, generator=generator, dtype=torch.float64, device=tokens.device)
        return self.observe(tokens.masked_fill(drawn < self.rates[tokens], self.vocab_size))

    def status(self, tokens: Tensor) -> Tensor:
        """Return LOST for masked tokens, KNOWN for all others."""
        return (tokens == self.vocab_size).to(torch.uint8) * int(Status.LOST)

    def likelihood(self, tokens: Tensor) -> TokenDependentMaskLikelihood:
        """Return the rates at masked tokens, and a point mass at others."""
        return TokenDependentMaskLikelihood(tokens, self.vocab_size, self.rates)
