"""Composite evidence of every composition of a lattice, at every visible position."""

from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.channels.likelihood import pick
from conservator.experts import Team
from conservator.field.pool import log_pool_at


@dataclass(frozen=True)
class GridEvidence:
    """The evidence of the visible positions for every state of a lattice.

    Attributes:
        emissions: (N, L, S) e_l(s), float64; 0 where nothing was predicted.
        kept: (N, L, S) the probability that the observed token is right, in each state; 1 if no token is doubtful.
    """

    emissions: Tensor
    kept: Tensor


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
    """Score every state of a lattice at every position that some pattern hides.

        e_l(s) = log sum_v c_l(v) pi_{w_s}(v | what pattern b(l) leaves visible),   mean over the repeats

    Args:
        team: m experts.
        observation: (N, L).
        patterns: (N, K, L) the positions that are predicted under each of K patterns.
        hidden: (N, K, L) the positions that are hidden from the experts under each pattern.
        weights: (S, m) the lattice.
        repeats: by how many patterns a position is predicted.
        hidden_from: (N, L, m) True where a position is also hidden from expert i, because the text is not of its kind.
        prior_term: False leaves the normaliser of the pool out: e_l(s) = log sum_v c_l(v) exp(sum_i w_i a_i(v)).
        margin: how many positions are read on either side of those that are predicted, as in ``Team.read``.
    """
    team.check(observation)
    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
    uncertain = bool(observation.uncertain.any())
    kept = torch.zeros_like(emissions) if uncertain else torch.ones((), dtype=torch.float64).expand_as(emissions)
    read = team.read(
        observation.tokens, hidden, patterns, hidden_from=hidden_from, excerpt=observation.excerpt, margin=margin
    )
    for found in read:
        place = (found.sequence, found.position)
        seen = observation[place]
        local = torch.empty(len(found.position), len(weights), dtype=torch.float64)
        own = torch.empty_like(local)
        same = seen.log_same() if uncertain else None
        for state, weight in enumerate(weights):
            pool, log_norm = log_pool_at(found.log_probs, weight)
            local[:, state] = seen.likelihood.log_evidence(pool)
            if same is not None:
                own[:, state] = (same + pick(pool, seen.readable) - local[:, state]).exp()
            if not prior_term:
                local[:, state] += log_norm
        # A position occurs several times here if several of its repeats are predicted together.
        emissions.index_put_(place, local, accumulate=True)
        if uncertain:
            kept.index_put_(place, own / repeats, accumulate=True)
    return GridEvidence(emissions.div_(repeats), kept)
