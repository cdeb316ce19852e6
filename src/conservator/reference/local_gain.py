"""Gain of local weights over a global weight, estimated from the damaged text alone, before decoding.

Visible tokens that are hidden from the experts are the test set: local weights and a global weight predict them.
Neither may depend on the token itself. The field is therefore inferred from tokens that are hidden together, so that no
expert reads any of them, and the evidence of the token is excluded from the posterior at its position and from the
choice of the prior (leave-one-out).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import Predictions, Team
from conservator.field.composition import Composition
from conservator.field.folds import Folds, hide
from conservator.field.grid_posterior import GridPosterior, default_priors, global_prior, grid_posterior
from conservator.field.leave_one_out import leave_one_out_evidence, leave_one_out_posterior
from conservator.field.pool import log_pool_at
from conservator.field.sampling import positions_of
from conservator.field.weight_grid import MarkovPrior, simplex_grid

Array = NDArray[np.float64]
Priors = Callable[[Array], Sequence[MarkovPrior]]
HALVES = Folds(2)
MAX_STATES = 40  # states: of the grid of the global weight [untuned]
MAX_RESOLUTION = 10  # grid steps: of the global weight, unless MAX_STATES requires fewer [untuned]


@dataclass(frozen=True)
class HeldOut:
    """Comparison of local weights and a global weight on n hidden visible tokens.

    Attributes:
        sequence: (n,) index of the sequence.
        position: (n,) position in the sequence.
        nats: (n,) the log-probability of the token under local weights, minus that under the global weight.
        right: (n,) whether the token is the argmax under local weights, minus whether it is under the global weight:
            -1, 0 or 1.
    """

    sequence: Tensor
    position: Tensor
    nats: Tensor
    right: Tensor


def read_folds(team: Team, observation: Observation, generator: torch.Generator) -> list[list[Predictions]]:
    """Predict every visible token of an observation (N, L) while it is hidden.

    Args:
        team: m experts, without gated experts.
        observation: from a channel without uncertain tokens.
        generator: draws the folds.

    Returns:
        The experts' predictions, a list for each set of tokens that are hidden together.
    """
    team.check(observation)
    if observation.uncertain.any():
        raise ConservatorError("the gain estimate needs a mask channel; the observation has uncertain tokens")
    patterns = HALVES.draw(~observation.lost, generator, observation.excerpt)
    hidden = hide(patterns, observation, None, generator)
    pairs = zip(patterns.split(1, dim=1), hidden.split(1, dim=1), strict=True)
    return [list(team.read(observation.tokens, mask, pattern, excerpt=observation.excerpt)) for pattern, mask in pairs]


def held_out_gain(
    folds: Sequence[Sequence[Predictions]], observation: Observation, priors: Priors = default_priors
) -> HeldOut:
    """Predict each visible token by local weights and by a global weight, from the tokens that were hidden with it.

    Args:
        folds: the result of ``read_folds``.
        observation: (N, L).
        priors: candidate priors of local weights, as a function of the grid; the one with the highest evidence is used.
    """
    columns: list[tuple[Tensor, ...]] = []
    for fold in folds:
        if not fold:
            continue
        experts = len(fold[0].log_probs)
        local = infer_grid(fold, observation, simplex_grid(experts), priors)
        shared = infer_grid(fold, observation, simplex_grid(experts, finest_resolution(experts)), global_prior)
        compositions = [fields.leave_one_out() for fields in (local, shared)]
        for predictions in fold:
            index = (predictions.sequence, predictions.position)
            truth = observation.tokens[index]
            log_probs = [composition.log_probs(predictions.log_probs, *index) for composition in compositions]
            nats = [rows.gather(-1, truth[:, None])[:, 0].double() for rows in log_probs]
            right = [(rows.argmax(-1) == truth).double() for rows in log_probs]
            columns.append((*index, nats[0] - nats[1], right[0] - right[1]))
    if not columns:
        raise ConservatorError("the gain cannot be estimated: the observation has no visible token")
    sequence, position, *gains = (torch.cat(column) for column in zip(*columns, strict=True))
    return HeldOut(sequence, position, *gains)


@dataclass(frozen=True)
class GridFields:
    """The posteriors of the fields of N sequences on a weight grid, under each candidate prior.

    Attributes:
        posteriors: one for each sequence, under the prior with the highest evidence.
        candidates: (N, P) one for each sequence and prior.
        emissions: (N, L, S) the evidence.
        weights: (S, m) the grid.
    """

    posteriors: tuple[GridPosterior, ...]
    candidates: tuple[tuple[GridPosterior, ...], ...]
    emissions: Array
    weights: Array

    def composition(self) -> Composition:
        """Return the composition of all positions, given all evidence."""
        return self._of([posterior.states for posterior in self.posteriors])

    def leave_one_out(self) -> Composition:
        """Return the composition at each position, given the evidence of all others, which also choose the prior."""
        all_states = []
        for candidates, rows in zip(self.candidates, self.emissions, strict=True):
            evidence = [
                candidate.log_evidence - leave_one_out_evidence(candidate.states, rows) for candidate in candidates
            ]
            best = np.argmax(evidence, axis=0)[:, None]
            states = np.stack([leave_one_out_posterior(candidate.states, rows) for candidate in candidates])
            all_states.append(np.take_along_axis(states, best[None, :, :], axis=0)[0])
        return self._of(all_states)

    def _of(self, states: Sequence[Array]) -> Composition:
        return Composition.of_states(torch.from_numpy(np.stack(states)), torch.from_numpy(self.weights))


def infer_grid(
    batches: Sequence[Predictions], observation: Observation, weights: Array, priors: Priors = default_priors
) -> GridFields:
    """Infer the fields of an observation (N, L) from predictions of its visible tokens, each predicted once."""
    emissions = score_states(batches, observation, weights)
    skipped, chains = np.diff(positions_of(observation).numpy(), prepend=-1) - 1, priors(weights)
    candidates = tuple(tuple(grid_posterior(rows, weights, [chain], skipped) for chain in chains) for rows in emissions)
    best = tuple(max(posteriors, key=lambda posterior: posterior.log_evidence) for posteriors in candidates)
    return GridFields(best, candidates, emissions, weights)


def finest_resolution(experts: int) -> int:
    """Return the resolution of the grid of the global weight."""
    return max(
        resolution
        for resolution in range(1, MAX_RESOLUTION + 1)
        if resolution == 1 or comb(experts + resolution - 1, resolution) <= MAX_STATES
    )


def score_states(batches: Sequence[Predictions], observation: Observation, weights: Array) -> Array:
    """Return (N, L, S) the log-probability of each predicted token in each grid state; 0 elsewhere."""
    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
    for predictions in batches:
        index = (predictions.sequence, predictions.position)
        truth = observation.tokens[index][:, None]
        for state, weight in enumerate(torch.from_numpy(weights)):
            pool, _ = log_pool_at(predictions.log_probs, weight)
            emissions[(*index, torch.tensor(state))] = pool.gather(-1, truth)[:, 0].double()
    return emissions.numpy()
