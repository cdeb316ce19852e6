"""An observation: what was seen at each position, whether it can be trusted, and what it says of the token there."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from conservator.channels.likelihood import Likelihood


class Status(IntEnum):
    """Whether what was seen at a position can be trusted."""

    KNOWN = 0  # the token is what was seen, and never changes
    DOUBTFUL = 1  # something was seen, and the token may be another
    LOST = 2  # nothing was seen


@dataclass(frozen=True)
class Excerpt:
    """Which positions of a longer sequence an observation has: those near damage, and what is read with them.

    Attributes:
        positions: (L,) int64, ascending.
        length: of the whole sequence.
    """

    positions: Tensor
    length: int

    @property
    def cuts(self) -> Tensor:
        """The places of the excerpt before which positions are left out, its end included if the sequence goes on."""
        before = torch.cat([torch.tensor([-1]), self.positions])
        after = torch.cat([self.positions, torch.tensor([self.length])])
        return (after - before > 1).nonzero()[:, 0]


@dataclass(frozen=True)
class Observation:
    """A damaged sequence y, or a batch of them. ``observation[index]`` keeps all that is known of each position.

    Attributes:
        tokens: (..., L) int64, the output symbols of the channel; those below V mean the token itself.
        status: (..., L) uint8, a ``Status`` a position.
        likelihood: c_l(v) at every position.
        vocab_size: V.
        excerpt: which positions of a longer sequence these are; None where they are all of it.
    """

    tokens: Tensor
    status: Tensor
    likelihood: Likelihood
    vocab_size: int
    excerpt: Excerpt | None = None

    def __getitem__(self, index: Any) -> "Observation":
        """The observation of some sequences or positions; an index of sequences alone keeps the excerpt."""
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
        """(..., L) True where what was seen may be wrong."""
        return self.status == Status.DOUBTFUL

    @property
    def hidden(self) -> Tensor:
        """(..., L) True where experts have nothing to read: lost, or a symbol of the channel that is no token."""
        return self.lost | (self.tokens >= self.vocab_size)

    @property
    def readable(self) -> Tensor:
        """(..., L) the tokens that were seen, and 0 where what was seen is none."""
        return self.tokens.masked_fill(self.hidden, 0)

    def log_same(self) -> Tensor:
        """(..., L) log c_l(y_l): how likely a token is to come out as it is; -inf where what came out is no token."""
        return self.likelihood.at(self.readable).masked_fill(self.hidden, -torch.inf)
