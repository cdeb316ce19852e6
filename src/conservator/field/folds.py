"""Folds: sets of visible positions that are hidden together. The experts' predictions of them are the evidence."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.channels import Excerpt, Observation
from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Folds:
    """Partition the visible positions at random into folds, and repeat the partition.

    Attributes:
        count: B, the number of folds of a partition. Each fold is hidden once, so 1/B of the visible positions is
            hidden at a time.
        repeats: the number of partitions; the evidence of a position is the mean over them.
    """

    count: int
    repeats: int = 1

    def __post_init__(self) -> None:
        """Check the two numbers."""
        if self.count < 1 or self.repeats < 1:
            raise ConservatorError(
                f"count and repeats of folds must be at least 1, got {self.count} and {self.repeats}"
            )

    @property
    def patterns(self) -> int:
        """The number of patterns, which is the number of passes over a window."""
        return self.count * self.repeats

    @property
    def single_repeat(self) -> "Folds":
        """The same number of folds with a single partition."""
        return replace(self, repeats=1)

    def draw(self, visible: Tensor, generator: torch.Generator, excerpt: Excerpt | None = None) -> Tensor:
        """Draw the patterns for sequences.

        Args:
            visible: (N, L) True at the positions to hide in turn.
            generator: the source of all randomness.
            excerpt: the positions of a longer sequence that are given. Random numbers are drawn for the whole sequence,
                so the folds do not depend on the excerpt.

        Returns:
            (N, patterns, L) True where a pattern hides a visible position. Each visible position is hidden by
            ``repeats`` patterns, and the folds of a partition differ in size by at most one.
        """
        patterns = []
        for _ in range(self.repeats):
            if excerpt is None:
                order = torch.rand(visible.shape, generator=generator)
            else:
                order = torch.rand((len(visible), excerpt.length), generator=generator)[:, excerpt.positions]
            rank = order.masked_fill(~visible, 2.0).argsort(dim=-1).argsort(dim=-1)
            # A random first fold: sequences with few visible positions should not always use the same folds.
            first = torch.randint(self.count, (len(visible), 1), generator=generator)
            fold = ((rank + first) % self.count).masked_fill(~visible, -1)
            patterns.append(fold[:, None] == torch.arange(self.count)[:, None])
        return torch.cat(patterns, dim=1)


# The best setting on tuning data: with half of the text hidden, the evidence separates experts well.
# folds and repeats: three random halvings of the visible positions [LOG: folds-and-priors]
DEFAULT = Folds(count=2, repeats=3)


def hide(patterns: Tensor, observation: Observation, error_probs: Tensor | None, generator: torch.Generator) -> Tensor:
    """Return (N, K, L) the positions that are hidden from the experts under each pattern.

    Hidden are the positions of the pattern, positions without an observed token, and a random subset of the uncertain
    positions.

    Args:
        patterns: (N, K, L).
        observation: (N, L).
        error_probs: (N, L) the probability with which an uncertain token is hidden; None for 0.
        generator: draws the uncertain tokens that are hidden.
    """
    hidden = patterns | observation.hidden[:, None]
    if error_probs is not None and (error_probs > 0).any():
        hidden = hidden | (torch.rand(patterns.shape, generator=generator) < error_probs[:, None])
    return hidden


def near_damage(observation: Observation, evidence_radius: int | None) -> Tensor:
    """Return (N, L) True within ``evidence_radius`` positions of a lost position.

    All positions of a sequence with an uncertain position are True. If ``evidence_radius`` is None, all positions of
    all sequences are True.
    """
    everywhere = observation.uncertain.any(-1, keepdim=True).expand(observation.tokens.shape)
    if evidence_radius is None:
        return torch.ones_like(everywhere)
    excerpt, near = observation.excerpt, everywhere.clone()
    positions = torch.arange(near.shape[1]) if excerpt is None else excerpt.positions
    for row, lost in enumerate(observation.lost):
        lost_positions = positions[lost]
        if len(lost_positions) and not everywhere[row, 0]:
            following = torch.searchsorted(lost_positions, positions)
            after = lost_positions[following.clamp(max=len(lost_positions) - 1)] - positions
            before = positions - lost_positions[(following - 1).clamp(min=0)]
            near[row] = (after.abs() <= evidence_radius) | (before.abs() <= evidence_radius)
    return near
