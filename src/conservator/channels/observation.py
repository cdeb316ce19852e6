"""An observation: the symbol at each position, its status, and the likelihood of each token."""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from conservator.channels.likelihood import Likelihood


class Status(IntEnum):
    """The status of the observed symbol at a position."""

    KNOWN = 0  # the token equals the observed symbol, and is never changed
    UNCERTAIN = 1  # a symbol was observed, but the token may differ
    LOST = 2  # the token is hidden from the experts; only its likelihood shows what was observed, if anything


@dataclass(frozen=True)
class Excerpt:
    """The positions of a longer sequence that an observation covers: positions near damage, and their context.

    Attributes:
        positions: (L,) int64, ascending.
        length: the length of the whole sequence.
    """

    positions: Tensor
    length: int

    @property
    def cuts(self) -> Tensor:
        """The indices before which positions are omitted, including the end if the sequence continues."""
        before = torch.cat([torch.tensor([-1]), self.positions])
        after = torch.cat([self.positions, torch.tensor([self.length])])
        return (after - before > 1).nonzero()[:, 0]


@dataclass(frozen=True)
class Observation:
    """A damaged sequence y, or a batch of them. ``observation[index]`` selects sequences or positions.

    Attributes:
        tokens: (..., L) int64, the output symbols of the channel; a symbol below V denotes the token with the same id.
        status: (..., L) uint8, the ``Status`` of each position.
        likelihood: c_l(v) at every position.
        vocab_size: V.
        excerpt: the positions in a longer sequence; None if the sequence is complete.
    """

    tokens: Tensor
    status: Tensor
    likelihood: Likelihood
    vocab_size: int
    excerpt: Excerpt | None = None

    def __getitem__(self, index: Any) -> "Observation":
        """Select sequences or positions; the excerpt is kept only if whole sequences are selected."""
        tokens = self.tokens[index]
        selects_sequences = index is None or (self.tokens.ndim > 1 and not isinstance(index, tuple))
        excerpt = self.excerpt if selects_sequences else None
        return Observation(tokens, self.status[index], self.likelihood[index], self.vocab_size, excerpt)

    @property
    def lost(self) -> Tensor:
        """(..., L) True where the token is lost, or hidden because it may be wrong."""
        return self.status == Status.LOST

    @property
    def uncertain(self) -> Tensor:
        """(..., L) True where the observed symbol may be wrong."""
        return self.status == Status.UNCERTAIN

    @property
    def hidden(self) -> Tensor:
        """(..., L) True where experts have no token as input: it is lost, or the observed symbol is not a token."""
        return self.lost | (self.tokens >= self.vocab_size)

    @property
    def readable(self) -> Tensor:
        """(..., L) the observed tokens; 0 where ``hidden``."""
        return self.tokens.masked_fill(self.hidden, 0)

    def with_hidden(self, hidden: Tensor) -> "Observation":
        """Return the observation whose uncertain positions are LOST where ``hidden`` (..., L), and KNOWN elsewhere.

        The likelihood is the same: a hidden token remains evidence for itself.
        """
        lost = self.lost | (self.uncertain & hidden)
        return replace(self, status=torch.where(lost, Status.LOST, Status.KNOWN).to(torch.uint8))

    def log_same(self) -> Tensor:
        """Return (..., L) log c_l(y_l), the log-likelihood of the observed token as clean token; -inf if ``hidden``."""
        return self.likelihood.at(self.readable).masked_fill(self.hidden, -torch.inf)
