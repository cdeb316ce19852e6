"""The channel contract and the observation that a channel makes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Observation:
    """A damaged sequence y, and the channel that it came through.

    Attributes:
        tokens: (..., L) output symbols of the channel, int64 in [0, channel.outputs).
        hidden: (..., L) bool, True where the token is known to be unknown.
        channel: the channel whose likelihood explains ``tokens``.
    """

    tokens: Tensor
    hidden: Tensor
    channel: "Channel"


class Channel(ABC):
    """A memoryless corruption channel over V input tokens.

    Writing c_l(v) = p_c(y_l | x_l = v) for the local likelihood, a channel gives

    - ``corrupt``: y ~ p_c(. | x);
    - ``log_likelihood``: log c_l(v);
    - ``log_evidence``: log sum_v c_l(v) pi_l(v), which a subclass may compute without the (L, V) table;
    - ``log_posterior``: log gamma_l(v), equation (token_post) of the paper.

    Attributes:
        vocab_size: V, the number of input tokens.
        outputs: the number of output symbols; 0 ... V - 1 mean the token itself where the alphabets agree.
    """

    vocab_size: int
    outputs: int

    @abstractmethod
    def corrupt(self, tokens: Tensor, generator: torch.Generator) -> Observation:
        """Draw y ~ p_c(. | x) for clean ``tokens`` (..., L), independently at every position."""

    @abstractmethod
    def log_likelihood(self, observation: Observation) -> Tensor:
        """Return log c_l(v): (..., L, V), float64."""

    def observe(self, tokens: Tensor) -> Observation:
        """Take an already damaged sequence (..., L) as an observation of this channel."""
        tokens = check_tokens(tokens, self.outputs, "output alphabet")
        return Observation(tokens, torch.zeros_like(tokens, dtype=torch.bool), self)

    def log_evidence(self, observation: Observation, log_probs: Tensor) -> Tensor:
        """Return log sum_v c_l(v) pi_l(v): (..., L), for ``log_probs`` log pi: (..., L, V)."""
        return torch.logsumexp(self.log_likelihood(observation) + log_probs, dim=-1)

    def log_posterior(self, observation: Observation, log_probs: Tensor) -> Tensor:
        """Return log gamma_l(v) = log c_l(v) pi_l(v) / sum_u c_l(u) pi_l(u): (..., L, V).

        It is nan where the observation is impossible, that is where ``log_evidence`` is -inf.
        """
        joint = self.log_likelihood(observation) + log_probs
        return joint - torch.logsumexp(joint, dim=-1, keepdim=True)


def pick(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Return log_probs[..., l, tokens_l]: (..., L), broadcasting ``log_probs`` (..., L, V) over observations."""
    shape = torch.broadcast_shapes(tokens.shape, log_probs.shape[:-1])
    return log_probs.expand(*shape, -1).gather(-1, tokens.expand(shape)[..., None])[..., 0]


def check_rate(rate: float) -> float:
    """Return ``rate`` as a float in [0, 1], or say what is wrong with it."""
    if not 0.0 <= rate <= 1.0:  # also catches nan
        raise ConservatorError(f"the corruption rate is {rate}; it must lie between 0 and 1")
    return float(rate)


def check_vocab_size(vocab_size: int) -> int:
    """Return ``vocab_size`` as an int where it is a positive whole number."""
    whole = hasattr(vocab_size, "__index__") and not isinstance(vocab_size, bool)
    if not whole or vocab_size < 1:
        raise ConservatorError(f"the vocabulary size is {vocab_size!r}; it must be a whole number of at least 1")
    return int(vocab_size)


def check_tokens(tokens: Tensor, size: int, alphabet: str = "vocabulary") -> Tensor:
    """Return ``tokens`` as int64 where they lie in [0, size); else name the first that does not."""
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise ConservatorError(f"tokens have the type {tokens.dtype}; they must be integers")
    tokens = tokens.long()
    outside = (tokens < 0) | (tokens >= size)
    if outside.any():
        where = outside.nonzero()[0].tolist()
        token = int(tokens[tuple(where)])
        place = where[-1] if len(where) == 1 else tuple(where)
        raise ConservatorError(f"token {token} at position {place} is outside the {alphabet} 0 ... {size - 1}")
    return tokens
