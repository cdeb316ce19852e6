"""The engine ``SubsampledBayes``: the posterior of fields on a weight grid, from a sample of the text."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.bayes import Priors, stack
from conservator.field.engines.engine import Inferred, Outcome, check_batch, has_visible
from conservator.field.engines.fit_gates import with_gates
from conservator.field.folds import hide, near_damage
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import GridPosterior, default_priors, grid_posterior
from conservator.field.leave_one_out import leave_one_out_evidence
from conservator.field.sampling import CONFIG as SAMPLING
from conservator.field.sampling import positions_of, sample_spans, spread
from conservator.field.selection import CONFIG as SELECTION
from conservator.field.selection import HALVES, experts_with_weight
from conservator.field.weight_grid import constant, simplex_grid


@dataclass(frozen=True)
class SubsampledBayesConfig:
    """Limits of the posterior of long texts, and the pruning of experts."""

    max_dense_positions: int = 2**16  # positions: a longer text is thinned before the posterior [safety limit]
    stride_positions: int = 32  # positions: distance of positions without evidence in a thinned text [untuned]
    min_expert_weight: float = 0.1  # weight: below it, an expert is skipped at a position [LOG: sampling-the-evidence]


CONFIG = SubsampledBayesConfig()


@dataclass(frozen=True)
class SubsampledBayes:
    """The exact posterior of fields on a weight grid, given the evidence of a sample of the visible text.

    The sample consists of short spans, spread over the text near damage. One half of the sample is hidden, once.
    Between spans the Markov prior interpolates the evidence, because domain segments are longer than the distance
    between spans. The cost is a fraction of one pass; ``Bayes`` needs six passes. Uncertain tokens are not supported.

    Attributes:
        resolution: the weights of the grid are k / resolution.
        priors: candidate priors, as a function of the grid.
        evidence_radius: evidence is gathered within this distance of lost positions; None for all positions.
        choose_experts: whether experts with negligible weight in a part of the sample are skipped in the rest of the
            sample and get no weight anywhere; for a single sequence.
    """

    resolution: int = 2
    priors: Priors = default_priors
    evidence_radius: int | None = None
    choose_experts: bool = False

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""
        check_batch(team, observation)
        if observation.uncertain.any():
            raise ConservatorError("SubsampledBayes does not support uncertain tokens; use the engine Bayes")
        if team.gated and len(team) == 1:
            return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))
        models, scored = team.without_gated(), near_damage(observation, self.evidence_radius)
        with team.meter.measure() as spent:
            emissions, pattern, chosen = self._gather(models, observation, ~observation.lost & scored, generator)
            weights = simplex_grid(len(chosen), self.resolution)
            dense = torch.ones(pattern.shape[1], dtype=torch.bool)
            if len(dense) > CONFIG.max_dense_positions:  # positions with evidence, lost positions, and a regular grid
                regular = torch.arange(len(dense)) % CONFIG.stride_positions == 0
                dense = (pattern | observation.lost).any(dim=0) | regular
            skipped = np.diff(positions_of(observation)[dense].numpy(), prepend=-1) - 1
            priors, nearest = self.priors(weights), dense.cumsum(0) - 1
            posteriors = [grid_posterior(rows[dense].numpy(), weights, priors, skipped) for rows in emissions]
            columns = torch.eye(len(models), dtype=torch.float64)[chosen]  # from chosen experts to all
            grid, states = torch.from_numpy(weights) @ columns, stack([posterior.states for posterior in posteriors])
            state_probs = Composition.of_states(states, grid).pruned(CONFIG.min_expert_weight).state_probs
            composition = Composition.of_states(state_probs[:, nearest], grid)
            entropies = [
                cross_entropy(posterior, observation[row], pattern[row]) for row, posterior in enumerate(posteriors)
            ]
            errors = [
                cross_entropy_error(posterior.states, rows[dense].numpy(), hidden[dense].numpy())
                for posterior, rows, hidden in zip(posteriors, emissions, pattern, strict=True)
            ]
            global_posteriors = [
                grid_posterior(rows[dense].numpy(), weights, [constant(weights)], skipped) for rows in emissions
            ]
            gains = [
                local_gain(local.states, shared.states, rows[dense].numpy(), hidden[dense].numpy())
                if len(models) > 1
                else None
                for local, shared, rows, hidden in zip(posteriors, global_posteriors, emissions, pattern, strict=True)
            ]
            inferred = Inferred(
                composition,
                composition.mean(),
                stack([posterior.regions for posterior in posteriors])[:, nearest] @ columns,
                torch.zeros(observation.tokens.shape, dtype=torch.float64),
                scored | observation.lost,
                has_visible(observation),
                tuple(
                    Outcome(
                        posterior.log_evidence,
                        posterior.prior,
                        posterior.evidences,
                        cross_entropy=entropy,
                        cross_entropy_error=error,
                        local_gain=gain,
                    )
                    for posterior, entropy, error, gain in zip(posteriors, entropies, errors, gains, strict=True)
                ),
                spent.cost,
            )
            if team.gated:
                inferred = with_gates(inferred, team, observation, scored, generator)
        return replace(inferred, cost=spent.cost)

    def _gather(
        self, team: Team, observation: Observation, eligible: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, list[int]]:
        """Gather the evidence of a sample of the ``eligible`` positions.

        Returns:
            (N, L, S) the evidence, (N, L) the sample, and the indices of the chosen experts.
        """
        span_index, margin = sample_spans(eligible, observation), SAMPLING.margin_positions
        weights, chosen = simplex_grid(len(team), self.resolution), list(range(len(team)))
        pattern = HALVES.draw(eligible & (span_index >= 0), generator, observation.excerpt)[:, :1]
        hidden = hide(pattern, observation, None, generator)
        choosing = self.choose_experts and len(team) > 1
        first = pattern & spread(span_index, SELECTION.max_spans) if choosing else pattern
        emissions = grid_evidence(team, observation, first, hidden, torch.from_numpy(weights), margin=margin).emissions
        if choosing and first.any():
            predicted = first[0, 0]
            chosen = experts_with_weight(emissions[0, predicted].numpy(), weights, span_index[predicted].numpy())
            others = np.delete(weights, chosen, axis=1).any(axis=1)
            weights, emissions = weights[~others][:, chosen], emissions[..., torch.from_numpy(~others)]
            rest = pattern & ~first
            if rest.any():
                smaller = Team([team.experts[number] for number in chosen], team.meter)
                grid = torch.from_numpy(weights)
                emissions += grid_evidence(smaller, observation, rest, hidden, grid, margin=margin).emissions
        return emissions, pattern[:, 0], chosen


def cross_entropy(posterior: GridPosterior, observation: Observation, hidden: Tensor) -> float | None:
    """Return the mean negative log-probability of the ``hidden`` (L,) visible tokens, in nats; None without any."""
    if not hidden.any():
        return None
    log_same = float(observation[hidden].log_same().sum())  # the channel's contribution, the same for every token
    return (log_same - posterior.log_evidence) / int(hidden.sum())


def cross_entropy_error(
    states: NDArray[np.float64], emissions: NDArray[np.float64], hidden: NDArray[np.bool_]
) -> float | None:
    """Return the standard error of the mean over the ``hidden`` tokens; None if fewer than two are hidden.

    Args:
        states: (L, S) the posterior of the grid states.
        emissions: (L, S) the evidence for each state.
        hidden: (L,).
    """
    if hidden.sum() < 2:
        return None
    nats = leave_one_out_evidence(states[hidden], emissions[hidden])
    return float(nats.std(ddof=1) / np.sqrt(len(nats)))


def local_gain(
    local: NDArray[np.float64],
    shared: NDArray[np.float64],
    emissions: NDArray[np.float64],
    hidden: NDArray[np.bool_],
) -> float | None:
    """Return the improvement of local over global weights in the mean log-probability of ``hidden`` tokens, in nats.

    Both predict a token from the evidence of all other hidden tokens. The experts did not read the token. None without
    hidden tokens.

    Args:
        local: (L, S) the posterior of the grid states.
        shared: (L, S) the posterior with one composition for the whole sequence.
        emissions: (L, S) the evidence for each state.
        hidden: (L,).
    """
    if not hidden.any():
        return None
    rows = emissions[hidden]
    return float((leave_one_out_evidence(local[hidden], rows) - leave_one_out_evidence(shared[hidden], rows)).mean())
