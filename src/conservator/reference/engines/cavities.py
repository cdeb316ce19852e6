"""The engine ``Cavities``: the exact posterior of lattice fields for experts with a uniform source, from one pass."""

from dataclasses import dataclass

import torch

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.bayes import Priors, skipped_before, stack
from conservator.field.engines.engine import Inferred, Outcome, check_batch, informed
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import default_priors, grid_posterior
from conservator.field.weight_grid import simplex_grid


@dataclass(frozen=True)
class Cavities:
    """As ``Bayes``, for a team of ``LeaveOneOut`` experts: their evidence of a visible token needs no folds.

    Every token is predicted from all others, of which nothing has to be hidden.

    Attributes:
        parts: the weights of the lattice are k / parts.
        priors: the priors to choose from, as a function of the lattice.
    """

    parts: int = 2
    priors: Priors = default_priors

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L); the generator is not used."""
        check_batch(team, observation)
        weights = simplex_grid(len(team), self.parts)
        lattice, priors, skipped = torch.from_numpy(weights), self.priors(weights), skipped_before(observation)
        hidden, visible = observation.hidden[:, None], ~observation.lost[:, None]
        with team.meter.measure() as spent:
            found = grid_evidence(team, observation, visible, hidden, lattice)
            posteriors = [grid_posterior(rows.numpy(), weights, priors, skipped) for rows in found.emissions]
            composition = Composition.of_states(stack([one.states for one in posteriors]), lattice)
        return Inferred(
            composition,
            composition.mean(),
            stack([one.regions for one in posteriors]),
            torch.zeros(observation.tokens.shape, dtype=torch.float64),
            torch.ones_like(observation.lost),
            informed(observation),
            tuple(Outcome(one.log_evidence, one.prior, one.evidences) for one in posteriors),
            spent.cost,
        )
