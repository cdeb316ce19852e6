"""The weight of an expert that recalls: inferred from a part of the visible positions, hidden at once."""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.folds import Folds, hide
from conservator.field.trust import SHARES, Trust, certainty, fit_trust, shared_pools

LIGHT = Folds(8)  # few positions are hidden at a time, as in a document that is to be restored
STRETCH = 512  # positions
STRETCHES = 8  # the most that are read; they are spread over the sequence


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
    pattern = LIGHT.draw(~observation.lost & scored, generator, observation.excerpt)[:, :1]
    pattern = pattern & spread(pattern.shape[-1], STRETCHES)
    hidden = hide(pattern, observation, doubt, generator)
    evidence, classes = [torch.zeros(0, len(SHARES), dtype=torch.float64)], [torch.zeros(0, dtype=torch.long)]
    for found in team.read(observation.tokens, hidden, pattern, excerpt=observation.excerpt):
        composed = composition.log_probs(found.log_probs[:-1], found.sequence, found.position)
        seen, recalled = observation[found.sequence, found.position], found.log_probs[-1]
        pools = shared_pools(composed, recalled)
        evidence.append(torch.stack([seen.likelihood.log_evidence(pool).double() for pool in pools], dim=-1))
        classes.append(certainty(recalled))
    return fit_trust(torch.cat(evidence).numpy(), torch.cat(classes).numpy())


def spread(length: int, stretches: int) -> Tensor:
    """(L,) True in at most so many stretches of STRETCH positions, spread evenly over ``length`` positions."""
    count = -(-length // STRETCH)
    chosen = torch.linspace(0, count - 1, min(count, stretches)).round().long()
    return torch.isin(torch.arange(length) // STRETCH, chosen)
