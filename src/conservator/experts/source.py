"""Sources: the noise that an expert's path starts from. Time is kappa: 0 = noise, 1 = data."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Source(Protocol):
    """Noise at kappa = 0; on the way to the data a position has its token with probability kappa."""

    @property
    def shows_noise(self) -> bool:
        """Whether an expert sees which positions are noise."""

    def replace(self, tokens: Tensor, noisy: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
        """Put noise into ``tokens`` (B, L) where ``noisy`` (B, L)."""


@dataclass(frozen=True)
class MaskSource:
    """All positions are masked at first; an expert sees which still are."""

    @property
    def shows_noise(self) -> bool:
        """Masked positions are seen."""
        return True

    def replace(self, tokens: Tensor, noisy: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
        """Put the mask in."""
        return tokens.masked_fill(noisy, vocab_size)


@dataclass(frozen=True)
class UniformSource:
    """All positions have uniformly random tokens at first; an expert does not see which still have."""

    @property
    def shows_noise(self) -> bool:
        """Random tokens look like any other."""
        return False

    def replace(self, tokens: Tensor, noisy: Tensor, vocab_size: int, generator: torch.Generator) -> Tensor:
        """Draw random tokens."""
        return torch.where(noisy, torch.randint(vocab_size, tokens.shape, generator=generator), tokens)
