"""The weight of an expert that recalls: inferred from a part of the visible positions, hidden at once."""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.folds import Folds, hide
from conservator.field.trust import SHARES, Trust, classes_of, fit_trust, shared_pools

LIGHT = Folds(8)  # few positions are hidden at a time, as in a document that is to be restored
STRETCH = 512  # positions
STRETCHES = 4  # the most that are read; they are spread over the sequence


def infer_trust(
    team: Team,
    observation: Observation,
    composition: Composition,
    scored: Tensor,
    doubt: Tensor,
    generator: torch.Generator,
) -> Trust:
    """Infer how much the last expert of a team is to be trusted, given the composition of the others.

    Args:
        team: the last of its experts recalls.
        observation: (N, L).
        composition: of the other experts.
        scored: (N, L) where evidence is gathered.
        doubt: (N, L) the probability that an observed token is wrong.
        generator: draws which positions are hidden.
    """
    sample = spread(~observation.lost & scored, observation, STRETCHES)
    pattern = LIGHT.draw(sample, generator, observation.excerpt)[:, :1]
    hidden = hide(pattern, observation, doubt, generator)
    evidence, classes = [torch.zeros(0, len(SHARES), dtype=torch.float64)], [torch.zeros(0, dtype=torch.long)]
    for found in team.read(observation.tokens, hidden, pattern, excerpt=observation.excerpt):
        composed = composition.log_probs(found.log_probs[:-1], found.sequence, found.position)
        seen, recalled = observation[found.sequence, found.position], found.log_probs[-1]
        pools = shared_pools(composed, recalled)
        evidence.append(torch.stack([seen.likelihood.log_evidence(pool).double() for pool in pools], dim=-1))
        classes.append(classes_of(composed, recalled))
    return fit_trust(torch.cat(evidence).numpy(), torch.cat(classes).numpy())


def stretches_of(observation: Observation) -> Tensor:
    """(L,) which stretch of the sequence each position of an observation (N, L) is in, counted from 0."""
    excerpt = observation.excerpt
    positions = torch.arange(observation.tokens.shape[1]) if excerpt is None else excerpt.positions
    return positions // STRETCH


def spread(wanted: Tensor, observation: Observation, most: int) -> Tensor:
    """The ``wanted`` positions (N, L) in at most so many stretches, spread evenly over those that have any."""
    stretch = stretches_of(observation)
    found = stretch[wanted.any(dim=0)].unique()
    chosen = found[torch.linspace(0, len(found) - 1, min(len(found), most)).round().long()]
    return wanted & torch.isin(stretch, chosen)
