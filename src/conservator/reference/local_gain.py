"""What local weights gain over one weight for the whole sequence, foretold from the damaged text alone.

Visible tokens that are hidden from the experts are tests: local weights predict them, and one weight does, both before
anything is decoded. Neither may have seen the token. So the field is inferred from tokens that are hidden together, of
which no expert read another one, and the evidence of the token itself is left out, of the posterior at its position and
of the choice of the prior there.
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
from conservator.field.leave_one_out import leave_out, left_out_evidence
from conservator.field.pool import log_pool_at
from conservator.field.sampling import positions_of
from conservator.field.weight_grid import MarkovPrior, simplex_grid

Array = NDArray[np.float64]
Priors = Callable[[Array], Sequence[MarkovPrior]]
HALF = Folds(2)
LARGEST = 40  # states of the lattice of one weight; it has the most parts, up to ten, that keep it smaller
FINEST = 10


@dataclass(frozen=True)
class HeldOut:
    """How much better local weights predict n visible tokens that were hidden than one weight does.

    Attributes:
        sequence: (n,) which sequence.
        position: (n,) which position in it.
        nats: (n,) the log-probability of the token under local weights, minus that under one weight.
        right: (n,) whether local weights find it likeliest, minus whether one weight does: -1, 0 or 1.
    """

    sequence: Tensor
    position: Tensor
    nats: Tensor
    right: Tensor


def read_folds(
    team: Team, observation: Observation, generator: torch.Generator, folds: Folds = HALF
) -> list[list[Predictions]]:
    """Predict every visible token of an observation (N, L) while it is hidden.

    Args:
        team: m experts, none of which recalls.
        observation: of a channel that leaves no token in doubt.
        generator: draws which tokens are hidden together.
        folds: which ones.

    Returns:
        The experts' predictions, a list for each set of tokens that are hidden together.
    """
    team.check(observation)
    if observation.uncertain.any():
        raise ConservatorError(
            "the gain of local weights is foretold by visible tokens that are known; some are doubtful"
        )
    patterns = folds.draw(~observation.lost, generator, observation.excerpt)
    hidden = hide(patterns, observation, None, generator)
    both = zip(patterns.split(1, dim=1), hidden.split(1, dim=1), strict=True)
    return [list(team.read(observation.tokens, gone, one, excerpt=observation.excerpt)) for one, gone in both]


def held_out_gain(
    read: Sequence[Sequence[Predictions]], observation: Observation, parts: int = 2, priors: Priors = default_priors
) -> HeldOut:
    """How local weights and one weight predict each visible token, from tokens that were hidden with it.

    Args:
        read: what ``read_folds`` returns.
        observation: (N, L).
        parts: the weights of the lattice of local weights are k / parts.
        priors: of local weights, as a function of the lattice; the one with the highest evidence is taken.
    """
    found: list[tuple[Tensor, ...]] = []
    for together in read:
        if not together:
            continue
        experts = len(together[0].log_probs)
        local = infer_grid(together, observation, simplex_grid(experts, parts), priors)
        shared = infer_grid(together, observation, simplex_grid(experts, finest_resolution(experts)), global_prior)
        composed = [one.left_out() for one in (local, shared)]
        for part in together:
            place = (part.sequence, part.position)
            truth = observation.tokens[place]
            laws = [one.log_probs(part.log_probs, *place) for one in composed]
            nats = [law.gather(-1, truth[:, None])[:, 0].double() for law in laws]
            right = [(law.argmax(-1) == truth).double() for law in laws]
            found.append((*place, nats[0] - nats[1], right[0] - right[1]))
    if not found:
        raise ConservatorError("nothing is visible, so that nothing foretells what local weights gain")
    sequence, position, *gains = (torch.cat(column) for column in zip(*found, strict=True))
    return HeldOut(sequence, position, *gains)


@dataclass(frozen=True)
class GridFields:
    """The posteriors of the fields of N sequences on a lattice, under each of the priors to choose from.

    Attributes:
        posteriors: one for each sequence, under the prior with the highest evidence.
        candidates: (N, P) one for each prior.
        emissions: (N, L, S) the evidence that they follow from.
        weights: (S, m) the lattice.
    """

    posteriors: tuple[GridPosterior, ...]
    candidates: tuple[tuple[GridPosterior, ...], ...]
    emissions: Array
    weights: Array

    def composition(self) -> Composition:
        """The composition of all positions, by all evidence."""
        return self._of([one.states for one in self.posteriors])

    def left_out(self) -> Composition:
        """At each position, the composition by the evidence of all others, which choose the prior, too."""
        found = []
        for candidates, rows in zip(self.candidates, self.emissions, strict=True):
            others = [one.log_evidence - left_out_evidence(one.states, rows) for one in candidates]
            best = np.argmax(others, axis=0)[:, None]
            states = np.stack([leave_out(one.states, rows) for one in candidates])
            found.append(np.take_along_axis(states, best[None, :, :], axis=0)[0])
        return self._of(found)

    def _of(self, states: Sequence[Array]) -> Composition:
        return Composition.of_states(torch.from_numpy(np.stack(states)), torch.from_numpy(self.weights))


def infer_grid(
    read: Sequence[Predictions], observation: Observation, weights: Array, priors: Priors = default_priors
) -> GridFields:
    """Infer the fields of an observation (N, L) from predictions of its visible tokens, each predicted once."""
    emissions = score_states(read, observation, weights)
    skipped, chains = np.diff(positions_of(observation).numpy(), prepend=-1) - 1, priors(weights)
    candidates = tuple(tuple(grid_posterior(rows, weights, [chain], skipped) for chain in chains) for rows in emissions)
    best = tuple(max(some, key=lambda one: one.log_evidence) for some in candidates)
    return GridFields(best, candidates, emissions, weights)


def finest_resolution(experts: int) -> int:
    """The parts of the lattice of one weight."""
    return max(parts for parts in range(1, FINEST + 1) if parts == 1 or comb(experts + parts - 1, parts) <= LARGEST)


def score_states(read: Sequence[Predictions], observation: Observation, weights: Array) -> Array:
    """(N, L, S) the log-probability of each token that was predicted, in each state; 0 elsewhere."""
    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
    for part in read:
        place = (part.sequence, part.position)
        truth = observation.tokens[place][:, None]
        for state, weight in enumerate(torch.from_numpy(weights)):
            pool, _ = log_pool_at(part.log_probs, weight)
            emissions[(*place, torch.tensor(state))] = pool.gather(-1, truth)[:, 0].double()
    return emissions.numpy()
