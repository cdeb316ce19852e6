"""The channel contract: how clean tokens become observed symbols."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from conservator.channels.likelihood import Likelihood
from conservator.channels.observation import Excerpt, Observation, Status
from conservator.errors import ConservatorError
from conservator.vocabularies import NumberedVocabulary


class Channel(ABC):
    """A memoryless corruption channel over V input tokens, y ~ p_c(. | x).

    A channel defines the symbols of a damaged sequence, the ``Status`` of each position (known, uncertain or lost), and
    the likelihood c_l(v) = p_c(y_l | x_l = v) of each token. If V is not an output symbol of the channel, it stands for
    a lost token.

    Attributes:
        vocab_size: V, the number of input tokens.
        outputs: the number of output symbols; a symbol below V denotes the token with the same id.
    """

    vocab_size: int
    outputs: int

    @abstractmethod
    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Draw y ~ p_c(. | x) for clean ``tokens`` (..., L), independently at every position."""

    @abstractmethod
    def status(self, tokens: Tensor) -> Tensor:
        """Return the ``Status`` of each of the damaged ``tokens`` (..., L): uint8."""

    @abstractmethod
    def likelihood(self, tokens: Tensor) -> Likelihood:
        """Return the likelihood c_l(v) of every token v, given the damaged ``tokens`` (..., L)."""

    @property
    def may_overwrite(self) -> bool:
        """Whether an observed token may be wrong."""
        return bool((self.status(torch.arange(self.vocab_size)) == Status.UNCERTAIN).any())

    def observe(self, tokens: Tensor, excerpt: Excerpt | None = None) -> Observation:
        """Return a damaged sequence (..., L), or an excerpt of one, as an observation of this channel."""
        tokens = check_integers(tokens)  # int64 first, because V may overflow the original type
        observed = tokens != self.vocab_size
        tokens = torch.where(
            observed, check_tokens(tokens * observed, self.outputs, "output alphabet"), self.vocab_size
        )
        return Observation(tokens, self.status(tokens), self.likelihood(tokens), self.vocab_size, excerpt)


def check_rate(rate: float) -> float:
    """Return ``rate`` as a float; raise an error unless it is in [0, 1]."""
    if not 0.0 <= rate <= 1.0:  # also catches nan
        raise ConservatorError(f"the corruption rate must be between 0 and 1, got {rate}")
    return float(rate)


def check_vocab_size(vocab_size: int) -> int:
    """Return ``vocab_size`` as an int; raise an error unless it is a positive integer."""
    return int(NumberedVocabulary(vocab_size).size)


def check_integers(tokens: Tensor) -> Tensor:
    """Return ``tokens`` as int64; raise an error unless they are integers."""
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise ConservatorError(f"tokens must be integers, got {tokens.dtype}")
    return tokens.long()


def check_tokens(tokens: Tensor, size: int, alphabet: str = "vocabulary") -> Tensor:
    """Return ``tokens`` as int64; raise an error that names the first token outside [0, size)."""
    tokens = check_integers(tokens)
    outside = (tokens < 0) | (tokens >= size)
    if outside.any():
        index = outside.nonzero()[0].tolist()
        token = int(tokens[tuple(index)])
        position = index[-1] if len(index) == 1 else tuple(index)
        raise ConservatorError(f"token {token} at position {position} is outside the {alphabet} 0 ... {size - 1}")
    return tokens
