"""An observation: the symbol seen at each position, its status, and the likelihood of each token there."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from conservator.channels.likelihood import Likelihood


class Status(IntEnum):
    """Whether the symbol seen at a position can be trusted."""

    KNOWN = 0  # the token is the symbol that was seen, and is never changed
    DOUBTFUL = 1  # a symbol was seen, but the token may be another
    LOST = 2  # nothing was seen


@dataclass(frozen=True)
class Excerpt:
    """The positions of a longer sequence that an observation covers: those near damage, and their context.

    Attributes:
        positions: (L,) int64, ascending.
        length: of the whole sequence.
    """

    positions: Tensor
    length: int

    @property
    def cuts(self) -> Tensor:
        """The places in the excerpt before which positions are left out; its end is one if the sequence continues."""
        before = torch.cat([torch.tensor([-1]), self.positions])
        after = torch.cat([self.positions, torch.tensor([self.length])])
        return (after - before > 1).nonzero()[:, 0]


@dataclass(frozen=True)
class Observation:
    """A damaged sequence y, or a batch of them. ``observation[index]`` selects sequences or positions.

    Attributes:
        tokens: (..., L) int64, the output symbols of the channel; one below V denotes the token of the same number.
        status: (..., L) uint8, the ``Status`` of each position.
        likelihood: c_l(v) at every position.
        vocab_size: V.
        excerpt: which positions of a longer sequence these are; None if the sequence is complete.
    """

    tokens: Tensor
    status: Tensor
    likelihood: Likelihood
    vocab_size: int
    excerpt: Excerpt | None = None

    def __getitem__(self, index: Any) -> "Observation":
        """The observation of some sequences or positions; the excerpt is kept only if whole sequences are selected."""
        part = self.tokens[index]
        sequences_alone = index is None or (self.tokens.ndim > 1 and not isinstance(index, tuple))
        excerpt = self.excerpt if sequences_alone else None
        return Observation(part, self.status[index], self.likelihood[index], self.vocab_size, excerpt)

    @property
    def lost(self) -> Tensor:
        """(..., L) True where nothing was seen."""
        return self.status == Status.LOST

    @property
    def doubtful(self) -> Tensor:
        """(..., L) True where the symbol that was seen may be wrong."""
        return self.status == Status.DOUBTFUL

    @property
    def hidden(self) -> Tensor:
        """(..., L) True where experts have no token to read: it is lost, or the observed symbol is not a token."""
        return self.lost | (self.tokens >= self.vocab_size)

    @property
    def readable(self) -> Tensor:
        """(..., L) the observed tokens; 0 where ``hidden``."""
        return self.tokens.masked_fill(self.hidden, 0)

    def log_same(self) -> Tensor:
        """(..., L) log c_l(y_l), the log-likelihood that the observed token is the clean one; -inf where ``hidden``."""
        return self.likelihood.at(self.readable).masked_fill(self.hidden, -torch.inf)
