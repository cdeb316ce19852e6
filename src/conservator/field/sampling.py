"""Samples of the visible text: short stretches, spread over a document, that are enough to tell who knows it."""

import torch
from torch import Tensor

from conservator.channels import Observation

STRETCH = 96  # positions
MARGIN = 16  # positions that are read on either side of a stretch
PERIOD = 640  # positions: of a long document, one stretch of each so many is taken
FEWEST = 20  # stretches of a shorter document, as long as they do not overlap


def positions_of(observation: Observation) -> Tensor:
    """(L,) the positions in the whole sequence that an observation (N, L) covers."""
    excerpt = observation.excerpt
    return torch.arange(observation.tokens.shape[1]) if excerpt is None else excerpt.positions


def stretches(wanted: Tensor, observation: Observation) -> Tensor:
    """(L,) the number of the stretch that each position of a sample is in; -1 outside of the sample.

    Args:
        wanted: (N, L) what the sample may contain.
        observation: (N, L).
    """
    places, any_row = positions_of(observation), wanted.any(dim=0)
    period = min(PERIOD, max(STRETCH, int(any_row.sum()) // FEWEST))
    inside = any_row & (places % period < STRETCH)
    return (places // period).masked_fill(~inside, -1)


def spread(stretch: Tensor, most: int) -> Tensor:
    """(L,) True in at most so many stretches, spread evenly over all."""
    found = stretch[stretch >= 0].unique()
    return torch.isin(stretch, found[torch.linspace(0, len(found) - 1, min(len(found), most)).round().long()])
