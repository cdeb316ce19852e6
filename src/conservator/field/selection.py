"""Choose the experts with non-negligible weight in a sample of the visible text of a document."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.folds import Folds, hide, near_damage
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import grid_posterior
from conservator.field.sampling import CONFIG as SAMPLING
from conservator.field.sampling import sample_spans, spread
from conservator.field.weight_grid import simplex_grid


@dataclass(frozen=True)
class SelectionConfig:
    """How experts are chosen."""

    min_mean_weight: float = 0.4  # weight: a chosen expert has this mean weight in at least one span [untuned]
    max_spans: int = 12  # spans: of the sample from which experts are chosen [untuned]


CONFIG = SelectionConfig()
# Half of a span is hidden at once, because the evidence then separates experts well.
HALVES = Folds(2)


def choose_experts(
    team: Team, observation: Observation, generator: torch.Generator, evidence_radius: int | None = None
) -> Team:
    """Return the experts with sufficient weight in a sample of an observation (1, L), in their order.

    Half of the sample is hidden at once and predicted by every expert.

    Args:
        team: the candidate experts.
        observation: the document.
        generator: draws the positions that are hidden.
        evidence_radius: the sample is taken within this distance of lost positions; None for all positions.
    """
    eligible = ~observation.lost & near_damage(observation, evidence_radius)
    span_index = sample_spans(eligible, observation)
    sample = eligible & spread(span_index, CONFIG.max_spans)
    if len(team) == 1 or not sample.any():
        return team
    weights = simplex_grid(len(team))
    pattern = HALVES.draw(sample, generator, observation.excerpt)[:, :1]
    hidden = hide(pattern, observation, None, generator)
    margin = SAMPLING.margin_positions
    evidence = grid_evidence(team, observation, pattern, hidden, torch.from_numpy(weights), margin=margin)
    predicted = pattern[0, 0]
    chosen = experts_with_weight(evidence.emissions[0, predicted].numpy(), weights, span_index[predicted].numpy())
    return Team([team.experts[number] for number in chosen], team.meter)


def experts_with_weight(
    emissions: NDArray[np.float64], weights: NDArray[np.float64], span_index: NDArray[np.int64]
) -> list[int]:
    """Return the indices of the experts whose mean weight is at least ``min_mean_weight`` in at least one span.

    Args:
        emissions: (n, S) the evidence of n positions for each state of a weight grid.
        weights: (S, m) the grid.
        span_index: (n,) the index of the span that contains each position.
    """
    field = grid_posterior(emissions, weights).field
    means = np.stack([field[span_index == span].mean(axis=0) for span in np.unique(span_index)])
    return np.flatnonzero(means.max(axis=0) >= min(CONFIG.min_mean_weight, means.max())).tolist()
