"""The local likelihood of a token v at each position of an observation: c_l(v) = p_c(y_l | x_l = v)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Likelihood(ABC):
    """log c_l(v) at every position of an observation.

    ``likelihood[index]`` is the likelihood at the positions ``index``. A subclass must implement ``table``, which has V
    numbers for each position. It may also override ``at``, ``log_evidence`` and ``log_posterior`` by versions without
    the table.

    Attributes:
        tokens: (..., L) the observed symbols; V where a token is lost.
        vocab_size: V.
        symbols: the number of output symbols, if the likelihood depends on the symbol alone, so that observations can
            be counted by symbol instead of scored one by one; else 0.
    """

    tokens: Tensor
    vocab_size: int

    @property
    def lost(self) -> Tensor:
        """(..., L) True at the symbol V, which stands for a lost token unless the channel has it as an output."""
        return self.tokens == self.vocab_size

    @property
    def symbols(self) -> int:
        """0 by default: the likelihood may depend on more than the symbol."""
        return 0

    @property
    def lost_is_informative(self) -> bool:
        """Whether the likelihood may depend on the token at a position with the status LOST; by default it may."""
        return True

    @property
    def has_loss_rates(self) -> bool:
        """Whether the likelihood of a lost token includes its loss rate; by default if it is informative."""
        return self.lost_is_informative

    def __getitem__(self, index: Any) -> Self:
        """Return the likelihood at the positions ``index``."""
        return replace(self, tokens=self.tokens[index])

    @abstractmethod
    def table(self) -> Tensor:
        """Return log c_l(v): (..., L, V), float64."""

    def at(self, tokens: Tensor) -> Tensor:
        """Return log c_l(tokens_l): (..., L)."""
        return pick(self.table(), tokens)

    def log_evidence(self, log_probs: Tensor) -> Tensor:
        """Return log sum_v c_l(v) pi_l(v): (..., L), for ``log_probs`` log pi: (..., L, V)."""
        return torch.logsumexp(self.table() + log_probs, dim=-1)

    def log_posterior(self, log_probs: Tensor) -> Tensor:
        """Return log gamma_l(v) = log c_l(v) pi_l(v) / sum_u c_l(u) pi_l(u), equation (token_post): (..., L, V).

        The result is nan where the observation is impossible (``log_evidence`` is -inf).
        """
        joint = self.table() + log_probs
        return joint - torch.logsumexp(joint, dim=-1, keepdim=True)


def pick(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Return log_probs[..., l, tokens_l]: (..., L), broadcasting ``log_probs`` (..., L, V) over observations."""
    shape = np.broadcast_shapes(tokens.shape, log_probs.shape[:-1])  # torch.broadcast_shapes takes 0.5 s to import
    return log_probs.expand(*shape, -1).gather(-1, tokens.expand(shape)[..., None])[..., 0]
