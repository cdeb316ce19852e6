"""The engines that find a single field: ``Maximum`` by convex optimisation, and ``Ascent`` by the paper's update."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.engine import Inferred, Outcome, check_batch, informed, rounds_for
from conservator.field.folds import DEFAULT, Folds
from conservator.reference.evidence.composite import CompositeEvidence
from conservator.reference.smoothing import PerColumn, Smoother
from conservator.reference.solvers.maximum import maximise
from conservator.reference.solvers.smoothed_ascent import ascend


@dataclass(frozen=True)
class Maximum:
    """The field that maximises composite evidence minus tau times total variation, with its certificate.

    The certificate is for sequences without doubtful tokens, whose evidence is concave; for others the result is a
    stationary field.

    Attributes:
        tau: the strength of the smoothing.
        folds: which visible positions are hidden together.
    """

    tau: float = 4.0
    folds: Folds = DEFAULT

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""

        def solve(evidence: CompositeEvidence) -> tuple[Tensor, Outcome]:
            found = maximise(evidence, self.tau)
            return found.field, Outcome(found.value, converged=found.converged, gap=found.gap)

        return solve_each(team, observation, generator, self.folds, solve)


@dataclass(frozen=True)
class Ascent:
    """The paper's update and smoothing in turn, on the gradient of composite evidence.

    Attributes:
        smoother: Smooth_tau.
        iterations: R.
        eta: the step size.
        folds: which visible positions are hidden together.
        prior_term: False leaves the prior term out of the gradient, for the ablation.
    """

    smoother: Smoother = field(default_factory=lambda: PerColumn(0.4))
    iterations: int = 30
    eta: float = 1.0
    folds: Folds = DEFAULT
    prior_term: bool = True

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""

        def solve(evidence: CompositeEvidence) -> tuple[Tensor, Outcome]:
            field, changes = ascend(
                lambda lam: evidence.value_and_gradient(lam)[1],
                evidence.shape,
                self.iterations,
                self.eta,
                self.smoother,
            )
            return field, Outcome(changes=changes)

        return solve_each(team, observation, generator, self.folds, solve, prior_term=self.prior_term)


def solve_each(
    team: Team,
    observation: Observation,
    generator: torch.Generator,
    folds: Folds,
    solve: Callable[[CompositeEvidence], tuple[Tensor, Outcome]],
    *,
    prior_term: bool = True,
) -> Inferred:
    """Solve for the field of each sequence; it stays uniform for a sequence without visible positions."""
    check_batch(team, observation)
    lam = torch.full((*observation.tokens.shape, len(team)), 1 / len(team), dtype=torch.float64)
    doubt = torch.zeros(observation.tokens.shape, dtype=torch.float64)
    outcomes = [Outcome()] * len(lam)
    with team.meter.measure() as spent:
        for row in team.meter.steps(informed(observation).nonzero()[:, 0].tolist()):
            one = observation[row]
            for _ in team.meter.steps(range(rounds_for(one))):
                evidence = CompositeEvidence.gather(team, one, folds, generator, doubt[row], prior_term=prior_term)
                lam[row], outcomes[row] = solve(evidence)
                if one.uncertain.any():
                    doubt[row] = (1 - evidence.kept(lam[row])).clamp(0, 1).masked_fill(~one.uncertain, 0.0)
    everywhere = torch.ones_like(observation.lost)
    composition = Composition.of_field(lam)
    return Inferred(composition, lam, lam, doubt, everywhere, informed(observation), tuple(outcomes), spent.cost)
