"""The channel contract: how clean tokens become observed symbols."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from conservator.channels.likelihood import Likelihood
from conservator.channels.observation import Excerpt, Observation
from conservator.errors import ConservatorError
from conservator.vocabularies import Numbered


class Channel(ABC):
    """A memoryless corruption channel over V input tokens, y ~ p_c(. | x).

    A channel defines which symbols a damaged sequence can have, the ``Status`` of each position (known, doubtful or
    lost), and the likelihood c_l(v) = p_c(y_l | x_l = v) of each token there. If the channel has no output symbol V of
    its own, the symbol V stands for a lost token.

    Attributes:
        vocab_size: V, the number of input tokens.
        outputs: the number of output symbols; a symbol below V denotes the token of the same number.
    """

    vocab_size: int
    outputs: int

    @abstractmethod
    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Draw y ~ p_c(. | x) for clean ``tokens`` (..., L), independently at every position."""

    @abstractmethod
    def status(self, tokens: Tensor) -> Tensor:
        """The ``Status`` of each of the damaged ``tokens`` (..., L): uint8."""

    @abstractmethod
    def likelihood(self, tokens: Tensor) -> Likelihood:
        """The likelihood c_l(v) of every token v, given the damaged ``tokens`` (..., L)."""

    def observe(self, tokens: Tensor, excerpt: Excerpt | None = None) -> Observation:
        """Take an already damaged sequence (..., L), or an excerpt of one, as an observation of this channel."""
        tokens = check_integers(tokens)  # as int64 first, because V may not fit into their original type
        seen = tokens != self.vocab_size
        tokens = torch.where(seen, check_tokens(tokens * seen, self.outputs, "output alphabet"), self.vocab_size)
        return Observation(tokens, self.status(tokens), self.likelihood(tokens), self.vocab_size, excerpt)


def check_rate(rate: float) -> float:
    """Return ``rate`` as a float; raise unless it lies in [0, 1]."""
    if not 0.0 <= rate <= 1.0:  # also catches nan
        raise ConservatorError(f"the corruption rate is {rate}; it must lie between 0 and 1")
    return float(rate)


def check_vocab_size(vocab_size: int) -> int:
    """Return ``vocab_size`` as an int; raise unless it is a positive whole number."""
    return int(Numbered(vocab_size).size)


def check_integers(tokens: Tensor) -> Tensor:
    """Return ``tokens`` as int64; raise unless they are integers."""
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise ConservatorError(f"tokens have the type {tokens.dtype}; they must be integers")
    return tokens.long()


def check_tokens(tokens: Tensor, size: int, alphabet: str = "vocabulary") -> Tensor:
    """Return ``tokens`` as int64; raise an error that names the first one outside [0, size), if there is any."""
    tokens = check_integers(tokens)
    outside = (tokens < 0) | (tokens >= size)
    if outside.any():
        where = outside.nonzero()[0].tolist()
        token = int(tokens[tuple(where)])
        place = where[-1] if len(where) == 1 else tuple(where)
        raise ConservatorError(f"token {token} at position {place} is outside the {alphabet} 0 ... {size - 1}")
    return tokens
