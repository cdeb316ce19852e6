"""Sources: the noise from which an expert's path to the data starts. Time is kappa: 0 = noise, 1 = data."""

from dataclasses import dataclass
from typing import Protocol


class Source(Protocol):
    """The noise at kappa = 0. At time kappa a position has its clean token with probability kappa, else noise."""

    @property
    def shows_noise(self) -> bool:
        """Whether noise is distinguishable from clean tokens."""


@dataclass(frozen=True)
class MaskSource:
    """Noise is the mask token, so noisy positions are visible to an expert."""

    shows_noise = True


@dataclass(frozen=True)
class UniformSource:
    """Noise is a uniformly random token, so noisy positions are not visible to an expert."""

    shows_noise = False
