"""Infer the composition of damaged sequences: the engines on composite evidence, behind one contract."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.field.bayes import infer_bayes
from conservator.field.composite import CompositeEvidence, gather_evidence
from conservator.field.composition import Composition
from conservator.field.convex import maximise
from conservator.field.cost import Cost
from conservator.field.folds import DEFAULT, Schedule
from conservator.field.lattice import MarkovPrior, constant, simplex_lattice
from conservator.field.smoothed_ascent import ascend
from conservator.field.smoothing import PerColumn, Smoother

ROUNDS = 3  # of gathering evidence and doubting tokens, where a channel does not say which are wrong
OWN_CONTEXT = 0.02  # after its first look, an expert reads where the text is its own with at least this probability
Priors = Callable[[NDArray[np.float64]], Sequence[MarkovPrior]]


@dataclass(frozen=True)
class Inferred:
    """What was inferred of N sequences.

    Attributes:
        composition: what is believed of the field; decoders take it.
        field: (N, L, m) the mean weights, rows on the simplex.
        regions: (N, L, m) whose text each position is: the slow level of a two-level prior, else the field.
        doubt: (N, L) the probability that a visible token is not what was observed; 0 where damage is seen.
        informed: (N,) False where nothing was visible, so that the field is the prior's.
        outcomes: one a sequence: what the engine says of how it got there.
        cost: network evaluations and seconds.
    """

    composition: Composition
    field: Tensor
    regions: Tensor
    doubt: Tensor
    informed: Tensor
    outcomes: tuple[object, ...]
    cost: Cost


def infer_with_bayes(
    experts: Sequence[Expert],
    observation: Observation,
    generator: torch.Generator,
    *,
    schedule: Schedule | None = None,
    parts: int = 2,
    priors: Priors | None = None,
    rounds: int | None = None,
    own_context: float = OWN_CONTEXT,
    prior_term: bool = True,
) -> Inferred:
    """The exact posterior of lattice fields, the prior chosen by its evidence.

    The first repeat of the schedule shows every expert the whole sequence. From then on an expert reads what may be
    its own: where the posterior of its region, from the repeats so far, is below ``own_context``, the text is hidden
    from it, because it was trained on pure documents. The evidence is the mean over the repeats.

    Where a channel does not say which tokens are wrong, contexts must not trust wrong tokens: after each round, a
    token is hidden from the experts with the probability that it is not what was observed.

    Args:
        experts: m of them.
        observation: (N, L).
        generator: draws the folds.
        schedule: which visible positions are hidden together.
        parts: the lattice has the weights k / parts.
        priors: the priors to choose from, as a function of the lattice.
        rounds: how often the evidence is gathered; by default once where damage is seen (mask), else ROUNDS times.
        own_context: the least probability at which text may be an expert's own; 0 shows all of it to everyone.
        prior_term: False leaves the pool's normaliser out of the evidence, for the ablation.
    """
    check_batch_of(observation)
    weights = simplex_lattice(len(experts), parts)
    lattice = torch.from_numpy(weights)
    choices = priors(weights) if priors else None
    schedule, certain = schedule or DEFAULT, isinstance(observation.channel, MaskChannel)
    doubt, cost = torch.zeros(observation.tokens.shape, dtype=torch.float64), Cost()
    with cost.timed():
        for _ in range(_rounds(observation, rounds)):
            emissions = torch.zeros(*observation.tokens.shape, len(weights), dtype=torch.float64)
            kept, foreign = torch.zeros((), dtype=torch.float64), None
            for repeat in range(1, schedule.repeats + 1):
                once = replace(schedule, repeats=1)
                heard = gather_evidence(
                    experts, observation, once, generator, lattice, doubt, foreign, prior_term=prior_term
                )
                cost.add(heard.cost)
                emissions += (heard.emissions - emissions) / repeat
                if not certain:
                    kept = kept + (heard.kept - kept) / repeat
                found = [infer_bayes(rows.numpy(), weights, choices) for rows in emissions]
                foreign = _foreign(torch.stack([torch.from_numpy(one.owners) for one in found]), own_context)
            states = torch.stack([torch.from_numpy(one.states) for one in found])
            if not certain:
                doubt = (1 - (states * kept).sum(-1)).clamp(0, 1)
        regions = torch.stack([torch.from_numpy(one.regions) for one in found])
        composition = Composition.of_states(states, lattice)
        field = composition.mean()
    return Inferred(composition, field, regions, doubt, informed(observation), tuple(found), cost)


def infer_globally(
    experts: Sequence[Expert],
    observation: Observation,
    generator: torch.Generator,
    *,
    schedule: Schedule | None = None,
    parts: int = 10,
) -> Inferred:
    """One weight for the whole sequence: tau = infinity, on a finer lattice."""
    return infer_with_bayes(
        experts, observation, generator, schedule=schedule, parts=parts, priors=lambda weights: [constant(weights)]
    )


def infer_maximum(
    experts: Sequence[Expert],
    observation: Observation,
    generator: torch.Generator,
    *,
    schedule: Schedule | None = None,
    tau: float = 4.0,
) -> Inferred:
    """The field that maximises composite evidence minus tau times total variation, with its certificate.

    The certificate is for the mask channel, under which the evidence is concave; under others the result is a
    stationary field.
    """

    def solve(evidence: CompositeEvidence) -> tuple[Tensor, object]:
        found = maximise(evidence, tau)
        return torch.from_numpy(found.field), found

    return _each(experts, observation, generator, schedule, solve)


def infer_by_ascent(
    experts: Sequence[Expert],
    observation: Observation,
    generator: torch.Generator,
    *,
    schedule: Schedule | None = None,
    smoother: Smoother | None = None,
    iterations: int = 30,
    eta: float = 1.0,
    prior_term: bool = True,
) -> Inferred:
    """The paper's update, on the composite gradient; without ``prior_term``, on the posterior's part of it alone."""

    def solve(evidence: CompositeEvidence) -> tuple[Tensor, object]:
        return ascend(
            lambda lam: evidence.value_and_gradient(lam)[1],
            evidence.shape,
            iterations,
            eta,
            smoother or PerColumn(0.4),
        )

    return _each(experts, observation, generator, schedule, solve, prior_term=prior_term)


def check_batch_of(observation: Observation) -> None:
    """Raise unless the observation is a batch (N, L)."""
    if observation.tokens.ndim != 2 or 0 in observation.tokens.shape:
        raise ConservatorError(f"the observation has the shape {tuple(observation.tokens.shape)}; it must be (N, L)")


def informed(observation: Observation) -> Tensor:
    """(N,) whether anything is visible."""
    return ~observation.hidden.all(-1)


def _each(
    experts: Sequence[Expert],
    observation: Observation,
    generator: torch.Generator,
    schedule: Schedule | None,
    solve: Callable[[CompositeEvidence], tuple[Tensor, object]],
    *,
    prior_term: bool = True,
) -> Inferred:
    """Solve for the field of each sequence; where nothing is visible it stays uniform."""
    check_batch_of(observation)
    shape, cost = (*observation.tokens.shape, len(experts)), Cost()
    lam = torch.full(shape, 1 / len(experts), dtype=torch.float64)
    doubt = torch.zeros(shape[:2], dtype=torch.float64)
    outcomes: list[object] = [None] * len(lam)
    with cost.timed():
        for row in informed(observation).nonzero()[:, 0].tolist():
            one = observation.channel.observe(observation.tokens[row])
            for _ in range(_rounds(observation, None)):
                evidence, spent = CompositeEvidence.gather(
                    experts, one, schedule or DEFAULT, generator, doubt[row], prior_term=prior_term
                )
                cost.add(spent)
                lam[row], outcomes[row] = solve(evidence)
                if not isinstance(observation.channel, MaskChannel):
                    doubt[row] = (1 - evidence.kept(lam[row])).clamp(0, 1)
    return Inferred(Composition.of_field(lam), lam, lam, doubt, informed(observation), tuple(outcomes), cost)


def _foreign(regions: Tensor, own_context: float) -> Tensor | None:
    """(N, L, m) the text that is hardly an expert's own; none where one composition was found for a whole sequence."""
    if own_context <= 0:
        return None
    varies = (regions != regions[:, :1]).any(dim=2).any(dim=1)
    return (regions < own_context) & varies[:, None, None]


def _rounds(observation: Observation, rounds: int | None) -> int:
    if rounds is None:
        return 1 if isinstance(observation.channel, MaskChannel) else ROUNDS
    if rounds < 1:
        raise ConservatorError(f"{rounds} rounds; at least one is needed")
    return rounds
