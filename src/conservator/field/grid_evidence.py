"""Composite evidence of every composition of a weight grid, at every visible position."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.channels.likelihood import pick
from conservator.experts import Team
from conservator.field.pool import log_pool_at


@dataclass(frozen=True)
class GridEvidence:
    """The evidence of the visible positions for every state of a weight grid.

    Attributes:
        emissions: (N, L, S) e_l(s), float64; 0 at positions that were not predicted.
        correct_probs: (N, L, S) the probability that the observed token is correct in each state; 1 if no token is
            uncertain.
    """

    emissions: Tensor
    correct_probs: Tensor


def grid_evidence(
    team: Team,
    observation: Observation,
    patterns: Tensor,
    hidden: Tensor,
    weights: Tensor,
    *,
    repeats: int = 1,
    hidden_from: Tensor | None = None,
    prior_term: bool = True,
    margin: int | None = None,
) -> GridEvidence:
    """Score every state of a weight grid at every position that a pattern hides.

        e_l(s) = log sum_v c_l(v) pi_{w_s}(v | visible positions under pattern b(l)),   mean over the repeats

    Args:
        team: m experts.
        observation: (N, L).
        patterns: (N, K, L) the positions that are predicted under each of K patterns.
        hidden: (N, K, L) the positions that are hidden from the experts under each pattern.
        weights: (S, m) the grid.
        repeats: the number of patterns that predict a position.
        hidden_from: (N, L, m) True where a position is also hidden from expert i, because it is out of its domain.
        prior_term: False omits the normaliser of the pool: e_l(s) = log sum_v c_l(v) exp(sum_i w_i a_i(v)).
        margin: the context on either side of the predicted positions, in positions, as in ``Team.read``.
    """
    team.check(observation)
    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
    uncertain = bool(observation.uncertain.any())
    correct_probs = (
        torch.zeros_like(emissions) if uncertain else torch.ones((), dtype=torch.float64).expand_as(emissions)
    )
    batches = team.read(
        observation.tokens, hidden, patterns, hidden_from=hidden_from, excerpt=observation.excerpt, margin=margin
    )
    for predictions in batches:
        index = (predictions.sequence, predictions.position)
        observed = observation[index]
        log_evidence = torch.empty(len(predictions.position), len(weights), dtype=torch.float64)
        correct = torch.empty_like(log_evidence)
        log_same = observed.log_same() if uncertain else None
        for state, weight in enumerate(weights):
            pool, log_norm = log_pool_at(predictions.log_probs, weight)
            log_evidence[:, state] = observed.likelihood.log_evidence(pool)
            if log_same is not None:
                correct[:, state] = (log_same + pick(pool, observed.readable) - log_evidence[:, state]).exp()
            if not prior_term:
                log_evidence[:, state] += log_norm
        # A position occurs several times in a batch if several of its repeats are predicted together.
        emissions.index_put_(index, log_evidence, accumulate=True)
        if uncertain:
            correct_probs.index_put_(index, correct / repeats, accumulate=True)
    return GridEvidence(emissions.div_(repeats), correct_probs)
