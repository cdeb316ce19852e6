"""The engine ``Bayes``: the exact posterior of lattice fields, the prior chosen by its evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.engine import Inferred, Outcome, check_batch, informed, rounds_for
from conservator.field.engines.fit_memory_gate import with_memory_gate
from conservator.field.folds import DEFAULT, Folds, hide, near_damage
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import default_priors, global_prior, grid_posterior
from conservator.field.weight_grid import MarkovPrior, simplex_grid

OWN_CONTEXT = 0.02  # a position is hidden from an expert if it is that expert's text with less than this probability
Priors = Callable[[NDArray[np.float64]], Sequence[MarkovPrior]]


@dataclass(frozen=True)
class Bayes:
    """The exact posterior of fields on a lattice, under the Markov prior with the highest evidence.

    In the first repeat of the folds, every expert conditions on the whole sequence, except for the hidden fold. Experts
    were trained on pure documents. From the second repeat on, an expert therefore conditions only on text that may be
    its own: positions where the posterior probability of its region, from the repeats so far, is at least
    ``domain_threshold``. The evidence is the mean over the repeats.

    An expert that recalls text has no regions. Its weight depends on how sure it is (``MemoryGate``), and is inferred when
    the composition of the others is known.

    Doubtful tokens may be wrong, and experts should not condition on wrong tokens. After the first round, a doubtful
    token is therefore hidden from the experts with the posterior probability that it is wrong.

    Attributes:
        folds: which visible positions are hidden together.
        parts: the weights of the lattice are k / parts.
        priors: the priors to choose from, as a function of the lattice.
        rounds: how often the evidence is gathered; None for once if every visible token is known, else three times.
        domain_threshold: an expert conditions only on positions that are its own text with at least this probability; 0 for
            all positions.
        prior_term: False leaves the pool's normaliser out of the evidence, for the ablation.
        evidence_radius: how far from lost positions evidence is gathered; None gathers it everywhere.
    """

    folds: Folds = DEFAULT
    parts: int = 2
    priors: Priors = default_priors
    rounds: int | None = None
    domain_threshold: float = OWN_CONTEXT
    prior_term: bool = True
    evidence_radius: int | None = None

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""
        check_batch(team, observation)
        if not team.is_retrieval:
            return self._infer(team, observation, generator)
        if len(team) == 1:
            return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))
        with team.meter.measure() as spent:
            found = self._infer(team.modelling(), observation, generator)
            scored = near_damage(observation, self.evidence_radius)
            found = with_memory_gate(found, team, observation, scored, generator)
        return replace(found, cost=spent.cost)

    def _infer(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of experts that model text."""
        weights = simplex_grid(len(team), self.parts)
        lattice, priors = torch.from_numpy(weights), self.priors(weights)
        scored = near_damage(observation, self.evidence_radius)
        uncertain, skipped = bool(observation.uncertain.any()), skipped_before(observation)
        doubt = torch.zeros(observation.tokens.shape, dtype=torch.float64)
        rounds = rounds_for(observation, self.rounds)
        emissions = kept = torch.zeros(())
        with team.meter.measure() as spent:
            for number in team.meter.steps(range(rounds * self.folds.repeats)):
                repeat = number % self.folds.repeats + 1
                if repeat == 1:
                    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
                    kept, hidden_from = torch.zeros((), dtype=torch.float64), None
                patterns = self.folds.once.draw(~observation.lost & scored, generator, observation.excerpt)
                hidden = hide(patterns, observation, doubt, generator)
                found = grid_evidence(
                    team,
                    observation,
                    patterns,
                    hidden,
                    lattice,
                    hidden_from=hidden_from,
                    prior_term=self.prior_term,
                )
                emissions += (found.emissions - emissions) / repeat
                posteriors = [grid_posterior(rows.numpy(), weights, priors, skipped) for rows in emissions]
                hidden_from = out_of_domain_mask(stack([one.owners for one in posteriors]), self.domain_threshold)
                if uncertain:
                    kept = kept + (found.kept - kept) / repeat
                    if repeat == self.folds.repeats:
                        states = stack([one.states for one in posteriors])
                        doubt = (1 - (states * kept).sum(-1)).clamp(0, 1).masked_fill(~observation.uncertain, 0.0)
            composition = Composition.of_states(stack([one.states for one in posteriors]), lattice)
            field = composition.mean()
        return Inferred(
            composition,
            field,
            stack([one.regions for one in posteriors]),
            doubt,
            scored | observation.lost,
            informed(observation),
            tuple(Outcome(one.log_evidence, one.prior, one.evidences) for one in posteriors),
            spent.cost,
        )


# One weight for the whole sequence: tau = infinity, on a finer lattice.
GLOBAL = Bayes(parts=10, priors=global_prior)


def out_of_domain_mask(owners: Tensor, domain_threshold: float) -> Tensor | None:
    """(N, L, m) True where a position is the text of expert i with a probability below ``domain_threshold``.

    ``owners`` (N, L, m) are these probabilities. It is False in a sequence where they are the same at all positions.
    None means that it is False everywhere.
    """
    if domain_threshold <= 0:
        return None
    varies = (owners != owners[:, :1]).any(dim=2).any(dim=1)
    return (owners < domain_threshold) & varies[:, None, None]


def skipped_before(observation: Observation) -> NDArray[np.int64] | None:
    """(L,) how many positions of the whole sequence are left out before each; None if none are left out."""
    if observation.excerpt is None:
        return None
    return np.diff(observation.excerpt.positions.numpy(), prepend=-1) - 1


def stack(tables: list[NDArray[np.float64]]) -> Tensor:
    """The tables of all sequences as one tensor."""
    return torch.stack([torch.from_numpy(table) for table in tables])
