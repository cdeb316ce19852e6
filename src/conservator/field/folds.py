"""Folds: which visible positions are hidden together, so that the experts' predictions of them are evidence."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.channels import Excerpt, Observation
from conservator.errors import ConservatorError


@dataclass(frozen=True)
class Folds:
    """Partition the visible positions at random into folds, several times over.

    Attributes:
        count: B, the number of folds of a partition. Each fold is hidden once, so that a share 1/B of the visible
            positions is hidden at a time.
        repeats: the number of partitions; the evidence of a position is the mean over them.
    """

    count: int
    repeats: int = 1

    def __post_init__(self) -> None:
        """Check the two numbers."""
        if self.count < 1 or self.repeats < 1:
            raise ConservatorError(f"{self.count} folds, {self.repeats} repeats; both must be at least 1")

    @property
    def patterns(self) -> int:
        """The number of patterns, that is how often a window is read."""
        return self.count * self.repeats

    @property
    def once(self) -> "Folds":
        """As many folds, but a single partition."""
        return replace(self, repeats=1)

    def draw(self, visible: Tensor, generator: torch.Generator, excerpt: Excerpt | None = None) -> Tensor:
        """Draw the patterns for sequences.

        Args:
            visible: (N, L) True at the positions to hide in turn.
            generator: the source of all randomness.
            excerpt: which positions of a longer sequence these are. Random numbers are drawn for the whole sequence,
                so that the folds do not depend on which part of it is read.

        Returns:
            (N, patterns, L) True where a pattern hides a visible position. Each visible position is hidden by
            ``repeats`` patterns, and the folds of a partition differ in size by at most one.
        """
        chosen = []
        for _ in range(self.repeats):
            if excerpt is None:
                order = torch.rand(visible.shape, generator=generator)
            else:
                order = torch.rand((len(visible), excerpt.length), generator=generator)[:, excerpt.positions]
            rank = order.masked_fill(~visible, 2.0).argsort(dim=-1).argsort(dim=-1)
            # A random first fold, so that sequences with few visible positions do not always use the same folds.
            first = torch.randint(self.count, (len(visible), 1), generator=generator)
            fold = ((rank + first) % self.count).masked_fill(~visible, -1)
            chosen.append(fold[:, None] == torch.arange(self.count)[:, None])
        return torch.cat(chosen, dim=1)


# The best setting on tuning data (docs/LOG.md): with half of the text hidden, the evidence distinguishes experts well.
DEFAULT = Folds(count=2, repeats=3)


def hide(patterns: Tensor, observation: Observation, doubt: Tensor | None, generator: torch.Generator) -> Tensor:
    """(N, K, L) the positions that are hidden from the experts under each pattern.

    These are the positions of the pattern, those that have no token to read, and a random part of the doubtful ones.

    Args:
        patterns: (N, K, L).
        observation: (N, L).
        doubt: (N, L) the probability with which a token is hidden because it may be wrong; None for 0.
        generator: draws which doubtful tokens are hidden.
    """
    hidden = patterns | observation.hidden[:, None]
    if doubt is not None and (doubt > 0).any():
        hidden = hidden | (torch.rand(patterns.shape, generator=generator) < doubt[:, None])
    return hidden


def near_damage(observation: Observation, evidence_radius: int | None) -> Tensor:
    """(N, L) True within ``evidence_radius`` positions of a lost one.

    It is True everywhere in a sequence with a doubtful position, and in all sequences if ``evidence_radius`` is None.
    """
    everywhere = observation.uncertain.any(-1, keepdim=True).expand(observation.tokens.shape)
    if evidence_radius is None:
        return torch.ones_like(everywhere)
    excerpt, found = observation.excerpt, everywhere.clone()
    positions = torch.arange(found.shape[1]) if excerpt is None else excerpt.positions
    for row, lost in enumerate(observation.lost):
        places = positions[lost]
        if len(places) and not everywhere[row, 0]:
            following = torch.searchsorted(places, positions)
            after = places[following.clamp(max=len(places) - 1)] - positions
            before = positions - places[(following - 1).clamp(min=0)]
            found[row] = (after.abs() <= evidence_radius) | (before.abs() <= evidence_radius)
    return found
