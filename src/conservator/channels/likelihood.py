"""What an observation says of the token at each position: the local likelihood c_l(v) = p_c(y_l | x_l = v)."""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor


class Likelihood(ABC):
    """log c_l(v) at every position of an observation.

    A likelihood holds what is known of each single position, and ``likelihood[index]`` keeps it. A subclass gives the
    table; it may give the other three without the table, which has V numbers a position.

    Attributes:
        symbols: how many output symbols there are, where two positions with the same symbol have the same likelihood,
            so that observations may be counted by symbol; else 0.
    """

    @property
    def symbols(self) -> int:
        """None that could be counted by."""
        return 0

    @abstractmethod
    def __getitem__(self, index: Any) -> "Likelihood":
        """The likelihood at some of the positions."""

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

        It is nan where the observation is impossible, that is where ``log_evidence`` is -inf.
        """
        joint = self.table() + log_probs
        return joint - torch.logsumexp(joint, dim=-1, keepdim=True)


def pick(log_probs: Tensor, tokens: Tensor) -> Tensor:
    """Return log_probs[..., l, tokens_l]: (..., L), broadcasting ``log_probs`` (..., L, V) over observations."""
    shape = np.broadcast_shapes(tokens.shape, log_probs.shape[:-1])  # torch's own would import half a second of modules
    return log_probs.expand(*shape, -1).gather(-1, tokens.expand(shape)[..., None])[..., 0]
