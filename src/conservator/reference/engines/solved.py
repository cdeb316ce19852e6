"""Engines with a point estimate of the field: ``Maximum`` by convex optimisation, ``Ascent`` by the paper's update."""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.experts import Team
from conservator.field.composition import Composition
from conservator.field.engines.engine import Inferred, Outcome, check_batch, has_visible, iterations_for
from conservator.field.folds import DEFAULT, Folds
from conservator.reference.evidence.composite import CompositeEvidence
from conservator.reference.smoothing.smoother import PerColumn, Smoother
from conservator.reference.solvers.maximum import maximise
from conservator.reference.solvers.smoothed_ascent import ascend


@dataclass(frozen=True)
class Maximum:
    """The field that maximises composite evidence minus tau times total variation, with a certificate.

    The certificate holds for sequences without uncertain tokens, whose evidence is concave. With uncertain tokens, the
    result is a stationary field.

    Attributes:
        tau: the strength of the smoothing.
        folds: the partitions of the visible positions.
    """

    tau: float = 4.0
    folds: Folds = DEFAULT

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""

        def solve(evidence: CompositeEvidence) -> tuple[Tensor, Outcome]:
            solution = maximise(evidence, self.tau)
            return solution.field, Outcome(solution.value, converged=solution.converged, gap=solution.gap)

        return solve_each(team, observation, generator, self.folds, solve)


@dataclass(frozen=True)
class Ascent:
    """The paper's update and smoothing, alternating, on the gradient of composite evidence.

    Attributes:
        smoother: Smooth_tau.
        iterations: R.
        eta: the step size.
        folds: the partitions of the visible positions.
        prior_term: False omits the prior term from the gradient, for the ablation.
    """

    smoother: Smoother = field(default_factory=lambda: PerColumn(0.4))
    iterations: int = 30
    eta: float = 1.0
    folds: Folds = DEFAULT
    prior_term: bool = True

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""

        def solve(evidence: CompositeEvidence) -> tuple[Tensor, Outcome]:
            field, changes = ascend(evidence.gradient, evidence.shape, self.iterations, self.eta, self.smoother)
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
    """Solve for the field of each sequence; the field of a sequence without visible positions is uniform."""
    check_batch(team, observation)
    lam = torch.full((*observation.tokens.shape, len(team)), 1 / len(team), dtype=torch.float64)
    error_probs = torch.zeros(observation.tokens.shape, dtype=torch.float64)
    outcomes = [Outcome()] * len(lam)
    with team.meter.measure() as spent:
        for row in team.meter.steps(has_visible(observation).nonzero()[:, 0].tolist()):
            sequence = observation[row]
            for _ in team.meter.steps(range(iterations_for(sequence))):
                evidence = CompositeEvidence.gather(
                    team, sequence, folds, generator, error_probs[row], prior_term=prior_term
                )
                lam[row], outcomes[row] = solve(evidence)
                if sequence.uncertain.any():
                    wrong = (1 - evidence.correct_probs(lam[row])).clamp(0, 1)
                    error_probs[row] = wrong.masked_fill(~sequence.uncertain, 0.0)
    everywhere = torch.ones_like(observation.lost)
    composition = Composition.of_field(lam)
    return Inferred(
        composition, lam, lam, error_probs, everywhere, has_visible(observation), tuple(outcomes), spent.cost
    )
