"""The engine ``Bayes``: the exact posterior of fields on a weight grid, under the prior with the highest evidence."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.engine import Inferred, Outcome, check_batch, has_visible, iterations_for
from conservator.field.engines.fit_gates import with_gates
from conservator.field.folds import DEFAULT, Folds, hide, near_damage
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import default_priors, global_prior, grid_posterior
from conservator.field.weight_grid import MarkovPrior, simplex_grid

# probability: text that belongs to an expert's domain with less than this is hidden from it [LOG: in-domain-context]
DOMAIN_THRESHOLD = 0.02
Priors = Callable[[NDArray[np.float64]], Sequence[MarkovPrior]]


@dataclass(frozen=True)
class Bayes:
    """The exact posterior of fields on a weight grid, under the Markov prior with the highest evidence.

    In the first repeat of the folds, every expert conditions on the whole sequence, except for the hidden fold. Experts
    are trained on pure documents. From the second repeat on, an expert therefore conditions only on text that may be of
    its domain: positions where the posterior probability of its domain segment, from the repeats so far, is at least
    ``domain_threshold``. The evidence is the mean over the repeats.

    A gated expert has no domain segments. Its weight depends on its confidence (``Gate``), and is inferred
    after the composition of the other experts.

    Uncertain tokens may be wrong, and experts should not condition on wrong tokens. After the first iteration, an
    uncertain token is therefore hidden from the experts with the posterior probability that it is wrong.

    Attributes:
        folds: the partitions of the visible positions.
        resolution: the weights of the grid are k / resolution.
        priors: candidate priors, as a function of the grid.
        iterations: the number of passes over the evidence; None for 1 if every visible token is known, else 3.
        domain_threshold: an expert conditions only on positions that belong to its domain with at least this
            probability; 0 for all positions.
        prior_term: False omits the normaliser of the pool from the evidence, for the ablation.
        evidence_radius: evidence is gathered within this distance of lost positions; None for all positions.
    """

    folds: Folds = DEFAULT
    resolution: int = 2
    priors: Priors = default_priors
    iterations: int | None = None
    domain_threshold: float = DOMAIN_THRESHOLD
    prior_term: bool = True
    evidence_radius: int | None = None

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""
        check_batch(team, observation)
        if not team.gated:
            return self._infer(team, observation, generator)
        if len(team) == 1:
            return Inferred.given(torch.ones(*observation.tokens.shape, 1, dtype=torch.float64))
        with team.meter.measure() as spent:
            inferred = self._infer(team.without_gated(), observation, generator)
            scored = near_damage(observation, self.evidence_radius)
            inferred = with_gates(inferred, team, observation, scored, generator)
        return replace(inferred, cost=spent.cost)

    def _infer(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of a team without gated experts."""
        weights = simplex_grid(len(team), self.resolution)
        grid, priors = torch.from_numpy(weights), self.priors(weights)
        scored = near_damage(observation, self.evidence_radius)
        uncertain, skipped = bool(observation.uncertain.any()), skipped_before(observation)
        error_probs = torch.zeros(observation.tokens.shape, dtype=torch.float64)
        iterations = iterations_for(observation, self.iterations)
        emissions = correct_probs = torch.zeros(())
        with team.meter.measure() as spent:
            for number in team.meter.steps(range(iterations * self.folds.repeats)):
                repeat = number % self.folds.repeats + 1
                if repeat == 1:
                    emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
                    correct_probs, hidden_from = torch.zeros((), dtype=torch.float64), None
                patterns = self.folds.single_repeat.draw(~observation.lost & scored, generator, observation.excerpt)
                hidden = hide(patterns, observation, error_probs, generator)
                evidence = grid_evidence(
                    team,
                    observation,
                    patterns,
                    hidden,
                    grid,
                    hidden_from=hidden_from,
                    prior_term=self.prior_term,
                )
                emissions += (evidence.emissions - emissions) / repeat
                posteriors = [grid_posterior(rows.numpy(), weights, priors, skipped) for rows in emissions]
                domain_probs = stack([posterior.domain_probs for posterior in posteriors])
                hidden_from = out_of_domain_mask(domain_probs, self.domain_threshold)
                if uncertain:
                    correct_probs = correct_probs + (evidence.correct_probs - correct_probs) / repeat
                    if repeat == self.folds.repeats:
                        states = stack([posterior.states for posterior in posteriors])
                        wrong = (1 - (states * correct_probs).sum(-1)).clamp(0, 1)
                        error_probs = wrong.masked_fill(~observation.uncertain, 0.0)
            composition = Composition.of_states(stack([posterior.states for posterior in posteriors]), grid)
            field = composition.mean()
        return Inferred(
            composition,
            field,
            stack([posterior.regions for posterior in posteriors]),
            error_probs,
            scored | observation.lost,
            has_visible(observation),
            tuple(Outcome(posterior.log_evidence, posterior.prior, posterior.evidences) for posterior in posteriors),
            spent.cost,
        )


# One weight for the whole sequence (tau = infinity), on a finer grid.
GLOBAL = Bayes(resolution=10, priors=global_prior)


def out_of_domain_mask(domain_probs: Tensor, domain_threshold: float) -> Tensor | None:
    """Return (N, L, m) True where a position belongs to the domain of expert i with too low a probability.

    The mask is False in a sequence whose probabilities are the same at all positions.

    Args:
        domain_probs: (N, L, m) the probability that a position belongs to the domain of each expert.
        domain_threshold: the mask is True below this probability. If it is 0, None is returned: no position is hidden.
    """
    if domain_threshold <= 0:
        return None
    varies = (domain_probs != domain_probs[:, :1]).any(dim=2).any(dim=1)
    return (domain_probs < domain_threshold) & varies[:, None, None]


def skipped_before(observation: Observation) -> NDArray[np.int64] | None:
    """Return (L,) the number of positions of the whole sequence that are omitted before each; None without excerpt."""
    if observation.excerpt is None:
        return None
    return np.diff(observation.excerpt.positions.numpy(), prepend=-1) - 1


def stack(tables: list[NDArray[np.float64]]) -> Tensor:
    """Stack the tables of all sequences into one tensor."""
    return torch.stack([torch.from_numpy(table) for table in tables])
