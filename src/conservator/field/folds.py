"""Fold schedules: which visible positions are hidden together, so that what an expert says of them is evidence."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Schedule:
    """Partition the visible positions at random into folds, several times over.

    Attributes:
        folds: B, into how many parts; each is hidden once, so a share 1/B of what is visible is hidden at a time.
        repeats: how many partitions; a position's evidence is the mean over them.
    """

    folds: int
    repeats: int = 1

    def __post_init__(self) -> None:
        """Check both."""
        if self.folds < 1 or self.repeats < 1:
            raise ConservatorError(f"{self.folds} folds, {self.repeats} repeats; both must be at least 1")

    @property
    def patterns(self) -> int:
        """How often a window is read."""
        return self.folds * self.repeats

    def draw(self, visible: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the patterns for sequences.

        Args:
            visible: (N, L) True at the positions to hide in turn.
            generator: the source of all randomness.

        Returns:
            (N, patterns, L) True where a pattern hides a visible position; each is hidden by ``repeats`` of them, and
            the folds of a partition differ in size by at most one.
        """
        chosen = []
        for _ in range(self.repeats):
            order = torch.rand(visible.shape, generator=generator).masked_fill(~visible, 2.0)
            rank = order.argsort(dim=-1).argsort(dim=-1)
            # A random first fold, so that short sequences do not always use the same ones.
            first = torch.randint(self.folds, (len(visible), 1), generator=generator)
            fold = ((rank + first) % self.folds).masked_fill(~visible, -1)
            chosen.append(fold[:, None] == torch.arange(self.folds)[:, None])
        return torch.cat(chosen, dim=1)


@dataclass(frozen=True)
class Nearby(Schedule):
    """A schedule for some of the positions: the others are seen all the time, and nothing is asked of them.

    Attributes:
        where: (N, L) or (L,) True at the positions to ask of.
    """

    where: Tensor = field(kw_only=True)

    def draw(self, visible: Tensor, generator: torch.Generator) -> Tensor:
        """Draw the patterns (N, patterns, L) for what is visible and asked of."""
        return super().draw(visible & self.where, generator)


# The best of a study on tuning data (docs/LOG.md): hiding half at a time tells experts apart.
DEFAULT = Schedule(folds=2, repeats=3)
