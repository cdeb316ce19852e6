"""The engine ``Cavities``: the exact posterior of fields for experts with a uniform source, from one pass."""

from dataclasses import dataclass

import torch

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.bayes import Priors, skipped_before, stack
from conservator.field.engines.engine import Inferred, Outcome, check_batch, has_visible
from conservator.field.grid_evidence import grid_evidence
from conservator.field.grid_posterior import default_priors, grid_posterior
from conservator.field.weight_grid import simplex_grid


@dataclass(frozen=True)
class Cavities:
    """The engine ``Bayes`` for a team of ``LeaveOneOut`` experts, which need no folds.

    Every visible token is predicted from all other tokens, and no token has to be hidden.

    Attributes:
        resolution: the weights of the grid are k / resolution.
        priors: candidate priors, as a function of the grid.
    """

    resolution: int = 2
    priors: Priors = default_priors

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L); the generator is not used."""
        check_batch(team, observation)
        weights = simplex_grid(len(team), self.resolution)
        grid, priors, skipped = torch.from_numpy(weights), self.priors(weights), skipped_before(observation)
        hidden, visible = observation.hidden[:, None], ~observation.lost[:, None]
        with team.meter.measure() as spent:
            evidence = grid_evidence(team, observation, visible, hidden, grid)
            posteriors = [grid_posterior(rows.numpy(), weights, priors, skipped) for rows in evidence.emissions]
            composition = Composition.of_states(stack([posterior.states for posterior in posteriors]), grid)
        return Inferred(
            composition,
            composition.mean(),
            stack([posterior.regions for posterior in posteriors]),
            torch.zeros(observation.tokens.shape, dtype=torch.float64),
            torch.ones_like(observation.lost),
            has_visible(observation),
            tuple(Outcome(posterior.log_evidence, posterior.prior, posterior.evidences) for posterior in posteriors),
            spent.cost,
        )
