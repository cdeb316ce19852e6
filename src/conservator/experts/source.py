"""Sources: the noise that an expert's path starts from. Time is kappa: 0 = noise, 1 = data."""

from dataclasses import dataclass
from typing import Protocol


class Source(Protocol):
    """The noise at kappa = 0. At time kappa a position has its own token with probability kappa, else noise."""

    @property
    def shows_noise(self) -> bool:
        """Whether an expert sees which positions are noise."""


@dataclass(frozen=True)
class MaskSource:
    """Noise is a mask, so an expert sees which positions are still noise."""

    @property
    def shows_noise(self) -> bool:
        """True."""
        return True


@dataclass(frozen=True)
class UniformSource:
    """Noise is a uniformly random token, so an expert does not see which positions are still noise."""

    @property
    def shows_noise(self) -> bool:
        """False."""
        return False
