"""What local weights gain over one weight for the whole sequence, foretold from the damaged text alone.

Visible tokens that are hidden from the experts are tests: local weights predict them, and one weight does, both before
anything is decoded. Neither may have seen the token. So the field is inferred from tokens that are hidden together, of
which no expert read another one, and the evidence of the token itself is left out of the posterior at its position.
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
from conservator.field.lattice import MarkovPrior, constant, simplex_lattice
from conservator.field.lattice_posterior import default_priors, lattice_posterior
from conservator.field.pool import log_pool_at
from conservator.field.sampling import places_of

Array = NDArray[np.float64]
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


def held_out_gain(
    team: Team,
    observation: Observation,
    generator: torch.Generator,
    folds: Folds = HALF,
    parts: int = 2,
    priors: Callable[[Array], Sequence[MarkovPrior]] = default_priors,
) -> HeldOut:
    """Predict every visible token of an observation (N, L) by local weights and by one weight.

    Args:
        team: m experts, none of which recalls.
        observation: of a channel that leaves no token in doubt.
        generator: draws which tokens are hidden together.
        folds: which ones.
        parts: the weights of the lattice of local weights are k / parts.
        priors: of local weights, as a function of the lattice; the one with the highest evidence is taken.
    """
    team.check(observation)
    if observation.doubtful.any():
        raise ConservatorError(
            "the gain of local weights is foretold by visible tokens that are known; some are doubtful"
        )
    lattices = [simplex_lattice(len(team), parts), simplex_lattice(len(team), finest_parts(len(team)))]
    chains = (priors(lattices[0]), [constant(lattices[1])])
    skipped = np.diff(places_of(observation).numpy(), prepend=-1) - 1
    patterns = folds.draw(~observation.lost, generator, observation.excerpt)
    hidden = hide(patterns, observation, None, generator)
    found: list[tuple[Tensor, ...]] = []
    for pattern, gone in zip(patterns.split(1, dim=1), hidden.split(1, dim=1), strict=True):
        read = list(team.read(observation.tokens, gone, pattern, excerpt=observation.excerpt))
        composed = []
        for weights, chain in zip(lattices, chains, strict=True):
            emissions = score_states(read, observation, weights)
            found_states = [lattice_posterior(rows, weights, chain, skipped).states for rows in emissions]
            states = torch.from_numpy(leave_out(np.stack(found_states), emissions))
            composed.append(Composition.of_states(states, torch.from_numpy(weights)))
        for part in read:
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


def finest_parts(experts: int) -> int:
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


def leave_out(states: Array, emissions: Array) -> Array:
    """The posterior of the states at each position, given the evidence of all others.

        c_l(s) = p(s_l = s | e_1 ... e_L) exp(-e_l(s)) / sum over u of p(s_l = u | e_1 ... e_L) exp(-e_l(u))

    Args:
        states: (..., S) the posterior, given all evidence.
        emissions: (..., S) e_l(s).
    """
    with np.errstate(divide="ignore"):
        joint = np.log(states) - emissions
    law = np.exp(joint - joint.max(axis=-1, keepdims=True))
    left: Array = law / law.sum(axis=-1, keepdims=True)
    return left


def left_out_evidence(states: Array, emissions: Array) -> Array:
    """(...,) the log-probability of what was observed at each position, given the evidence of all others.

    It takes what ``leave_out`` takes.
    """
    with np.errstate(divide="ignore"):
        joint = np.log(leave_out(states, emissions)) + emissions
    evidence: Array = np.logaddexp.reduce(joint, axis=-1)
    return evidence
