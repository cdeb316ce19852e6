"""Choose those experts of a team that have something to say about a document, from a sample of its visible text."""

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.folds import Folds, hide, near_damage
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import grid_posterior
from conservator.field.sampling import MARGIN, spread, stretches
from conservator.field.weight_grid import simplex_grid

LEAST = 0.4  # the mean weight that an expert must have, in some stretch of the sample, to be chosen
STRETCHES = 12  # of the sample from which experts are chosen, at most
HALF = Folds(2)  # of a stretch, half is hidden at once: so the evidence distinguishes experts well


def choose_experts(
    team: Team, observation: Observation, generator: torch.Generator, evidence_radius: int | None = None
) -> Team:
    """The experts that get some weight somewhere in a sample of an observation (1, L), in their order.

    Half of the sample is hidden at once and predicted by every expert.

    Args:
        team: the experts to choose from.
        observation: the document.
        generator: draws which positions are hidden.
        evidence_radius: how far from lost positions the sample is taken; None takes it anywhere.
    """
    wanted = ~observation.lost & near_damage(observation, evidence_radius)
    stretch = stretches(wanted, observation)
    sample = wanted & spread(stretch, STRETCHES)
    if len(team) == 1 or not sample.any():
        return team
    weights = simplex_grid(len(team))
    pattern = HALF.draw(sample, generator, observation.excerpt)[:, :1]
    hidden = hide(pattern, observation, None, generator)
    found = grid_evidence(team, observation, pattern, hidden, torch.from_numpy(weights), margin=MARGIN)
    predicted = pattern[0, 0]
    chosen = with_weight(found.emissions[0, predicted].numpy(), weights, stretch[predicted].numpy())
    return Team([team.experts[number] for number in chosen], team.meter)


def with_weight(emissions: NDArray[np.float64], weights: NDArray[np.float64], stretch: NDArray[np.int64]) -> list[int]:
    """The experts whose mean weight is at least LEAST in some stretch, by their numbers.

    Args:
        emissions: (n, S) the evidence of n positions for each state of a lattice.
        weights: (S, m) the lattice.
        stretch: (n,) the number of the stretch that each position is in.
    """
    field = grid_posterior(emissions, weights).field
    means = np.stack([field[stretch == one].mean(axis=0) for one in np.unique(stretch)])
    return np.flatnonzero(means.max(axis=0) >= min(LEAST, means.max())).tolist()
