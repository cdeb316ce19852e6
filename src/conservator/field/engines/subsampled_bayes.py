"""The engine ``SubsampledBayes``: the posterior of lattice fields, as ``Bayes`` infers it, from a sample of the text."""

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
from conservator.field.engines.engine import Inferred, Outcome, check_batch, informed
from conservator.field.engines.fit_memory_gate import with_memory_gate
from conservator.field.folds import hide, near_damage
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import GridPosterior, default_priors, grid_posterior
from conservator.field.leave_one_out import left_out_evidence
from conservator.field.sampling import MARGIN, positions_of, spread, stretches
from conservator.field.selection import HALF, STRETCHES, with_weight
from conservator.field.weight_grid import constant, simplex_grid

LONG = 2**16  # positions; of a longer text, the posterior is not computed at each
BETWEEN = 32  # positions from one place without evidence to the next at which it is computed then
SAY = 0.1  # the mean weight below which an expert has no say at a position, and is not asked


@dataclass(frozen=True)
class SubsampledBayes:
    """The exact posterior of fields on a lattice, given the evidence of a sample of the visible text.

    The sample consists of short stretches, spread over the text near damage. One half of them is hidden, once. Between
    stretches the Markov prior carries the evidence on: regions are longer than the distance from stretch to stretch.
    It costs a fraction of one pass, where ``Bayes`` costs six. It takes no doubtful tokens.

    Attributes:
        parts: the weights of the lattice are k / parts.
        priors: the priors to choose from, as a function of the lattice.
        evidence_radius: how far from lost positions evidence is gathered; None gathers it everywhere.
        chooses: whether experts that have nothing to say about a part of the sample are not asked about the rest, and
            have no weight anywhere; for one sequence.
    """

    parts: int = 2
    priors: Priors = default_priors
    evidence_radius: int | None = None
    chooses: bool = False

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""
        check_batch(team, observation)
        if observation.uncertain.any():
            raise ConservatorError("a survey takes no doubtful tokens; the engine Bayes does")
        if team.is_retrieval and len(team) == 1:
            return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))
        models, scored = team.modelling(), near_damage(observation, self.evidence_radius)
        with team.meter.measure() as spent:
            emissions, pattern, chosen = self._gather(models, observation, ~observation.lost & scored, generator)
            weights = simplex_grid(len(chosen), self.parts)
            kept = torch.ones(pattern.shape[1], dtype=torch.bool)
            if len(kept) > LONG:  # where there is evidence or something is lost, and at some places between
                kept = (pattern | observation.lost).any(dim=0) | (torch.arange(len(kept)) % BETWEEN == 0)
            skipped = np.diff(positions_of(observation)[kept].numpy(), prepend=-1) - 1
            priors, nearest = self.priors(weights), kept.cumsum(0) - 1
            posteriors = [grid_posterior(rows[kept].numpy(), weights, priors, skipped) for rows in emissions]
            columns = torch.eye(len(models), dtype=torch.float64)[chosen]  # from chosen experts to all
            lattice, states = torch.from_numpy(weights) @ columns, stack([one.states for one in posteriors])
            share = Composition.of_states(states, lattice).pruned(SAY).share
            composition = Composition.of_states(share[:, nearest], lattice)
            surprises = [cross_entropy(one, observation[row], pattern[row]) for row, one in enumerate(posteriors)]
            errors = [
                cross_entropy_error(one.states, rows[kept].numpy(), hidden[kept].numpy())
                for one, rows, hidden in zip(posteriors, emissions, pattern, strict=True)
            ]
            shared = [grid_posterior(rows[kept].numpy(), weights, [constant(weights)], skipped) for rows in emissions]
            gains = [
                local_gain(one.states, other.states, rows[kept].numpy(), hidden[kept].numpy())
                if len(models) > 1
                else None
                for one, other, rows, hidden in zip(posteriors, shared, emissions, pattern, strict=True)
            ]
            inferred = Inferred(
                composition,
                composition.mean(),
                stack([one.regions for one in posteriors])[:, nearest] @ columns,
                torch.zeros(observation.tokens.shape, dtype=torch.float64),
                scored | observation.lost,
                informed(observation),
                tuple(
                    Outcome(
                        one.log_evidence,
                        one.prior,
                        one.evidences,
                        cross_entropy=nats,
                        cross_entropy_error=error,
                        local_gain=more,
                    )
                    for one, nats, error, more in zip(posteriors, surprises, errors, gains, strict=True)
                ),
                spent.cost,
            )
            if team.is_retrieval:
                inferred = with_memory_gate(inferred, team, observation, scored, generator)
        return replace(inferred, cost=spent.cost)

    def _gather(
        self, team: Team, observation: Observation, wanted: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, list[int]]:
        """The evidence (N, L, S) of a sample of the ``wanted`` positions, the sample (N, L), and whom it is about."""
        stretch = stretches(wanted, observation)
        weights, chosen = simplex_grid(len(team), self.parts), list(range(len(team)))
        pattern = HALF.draw(wanted & (stretch >= 0), generator, observation.excerpt)[:, :1]
        hidden = hide(pattern, observation, None, generator)
        first = pattern & spread(stretch, STRETCHES) if self.chooses and len(team) > 1 else pattern
        found = grid_evidence(team, observation, first, hidden, torch.from_numpy(weights), margin=MARGIN).emissions
        if self.chooses and len(team) > 1 and first.any():
            predicted = first[0, 0]
            chosen = with_weight(found[0, predicted].numpy(), weights, stretch[predicted].numpy())
            others = np.delete(weights, chosen, axis=1).any(axis=1)
            weights, found = weights[~others][:, chosen], found[..., torch.from_numpy(~others)]
            rest = pattern & ~first
            if rest.any():
                few = Team([team.experts[number] for number in chosen], team.meter)
                found += grid_evidence(
                    few, observation, rest, hidden, torch.from_numpy(weights), margin=MARGIN
                ).emissions
        return found, pattern[:, 0], chosen


def cross_entropy(found: GridPosterior, observation: Observation, hidden: Tensor) -> float | None:
    """-log p of a visible token that was ``hidden`` (L,), in nats, on average; None if none was."""
    if not hidden.any():
        return None
    kept = float(observation[hidden].log_same().sum())  # what the channel adds, whatever the token is
    return (kept - found.log_evidence) / int(hidden.sum())


def cross_entropy_error(
    states: NDArray[np.float64], emissions: NDArray[np.float64], hidden: NDArray[np.bool_]
) -> float | None:
    """The standard error of the mean surprise over the ``hidden`` tokens (L,); None if fewer than two were hidden.

    Args:
        states: (L, S) the posterior of the lattice states.
        emissions: (L, S) the evidence for each state.
        hidden: (L,).
    """
    if hidden.sum() < 2:
        return None
    nats = left_out_evidence(states[hidden], emissions[hidden])
    return float(nats.std(ddof=1) / np.sqrt(len(nats)))


def local_gain(
    local: NDArray[np.float64],
    shared: NDArray[np.float64],
    emissions: NDArray[np.float64],
    hidden: NDArray[np.bool_],
) -> float | None:
    """By how much local weights predict a ``hidden`` token (L,) better than one weight, in nats, on average.

    Both predict it from the evidence of all other hidden tokens, whose experts did not read it either. None if nothing
    was hidden.

    Args:
        local: (L, S) the posterior of the lattice states.
        shared: (L, S) that of one composition for the whole sequence.
        emissions: (L, S) the evidence for each state.
        hidden: (L,).
    """
    if not hidden.any():
        return None
    rows = emissions[hidden]
    return float((left_out_evidence(local[hidden], rows) - left_out_evidence(shared[hidden], rows)).mean())
