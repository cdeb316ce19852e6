"""Sources: the noise that an expert's path starts from. Time is kappa: 0 = noise, 1 = data."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Source(Protocol):
    """The noise at kappa = 0. At time kappa a position has its clean token with probability kappa, else noise."""

    @property
    def shows_noise(self) -> bool:
        """Whether an expert sees which positions are noise."""

    def replace(self, tokens: Tensor, noisy: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
        """Replace ``tokens`` (B, L) by noise where ``noisy`` (B, L) is True."""


@dataclass(frozen=True)
class MaskSource:
    """All positions are masked at kappa = 0. An expert sees which positions are masked."""

    @property
    def shows_noise(self) -> bool:
        """An expert sees which positions are masked."""
        return True

    def replace(self, tokens: Tensor, noisy: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
        """Replace noisy tokens by the mask."""
        return tokens.masked_fill(noisy, vocab_size)


@dataclass(frozen=True)
class UniformSource:
    """All positions have uniformly random tokens at kappa = 0. An expert does not see which positions are random."""

    @property
    def shows_noise(self) -> bool:
        """A random token looks like any other."""
        return False

    def replace(self, tokens: Tensor, noisy: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
        """Replace noisy tokens by uniformly random ones."""
        return torch.where(noisy, torch.randint(vocab_size, tokens.shape, generator=generator), tokens)
