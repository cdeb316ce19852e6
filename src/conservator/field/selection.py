"""Choose those experts of a team that have something to say about a document, from a sample of its visible text."""

import torch

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.engines.recalling import spread, stretches_of
from conservator.field.folds import Folds, hide, near_damage
from conservator.field.lattice import simplex_lattice
from conservator.field.lattice_evidence import lattice_evidence
from conservator.field.lattice_posterior import lattice_posterior

LEAST = 0.15  # the mean weight that an expert must have, in some stretch of the sample, to be chosen
STRETCHES = 16  # of the sample, at most


def choose_experts(team: Team, observation: Observation, generator: torch.Generator, near: int | None = None) -> Team:
    """The experts that get some weight somewhere in a sample of an observation (1, L), in their order.

    Half of the sample is hidden at once and predicted by every expert: one evaluation of each window, however many
    experts there are that say nothing.

    Args:
        team: the experts to choose from.
        observation: the document.
        generator: draws which positions are hidden.
        near: how far from lost positions the sample is taken; None takes it anywhere.
    """
    sample = spread(~observation.lost & near_damage(observation, near), observation, STRETCHES)
    if len(team) == 1 or not sample.any():
        return team
    weights, excerpt = simplex_lattice(len(team)), observation.excerpt
    pattern = Folds(2).draw(sample, generator, excerpt)[:, :1]
    hidden = hide(pattern, observation, None, generator)
    found = lattice_evidence(team, observation, pattern, hidden, torch.from_numpy(weights))
    field = torch.from_numpy(lattice_posterior(found.emissions[0].numpy(), weights).field)
    stretch = stretches_of(observation)[pattern[0, 0]]
    means = torch.stack([field[pattern[0, 0]][stretch == one].mean(dim=0) for one in stretch.unique()])
    chosen = (means >= LEAST).any(dim=0).tolist()
    return Team([expert for expert, useful in zip(team.experts, chosen, strict=True) if useful], team.meter)
