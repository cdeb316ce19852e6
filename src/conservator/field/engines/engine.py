"""The engine contract: infer the composition of a damaged observation."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import Cost, Team
from conservator.field.composition import Composition

ROUNDS = 3  # how often evidence is gathered and the doubt about tokens updated, if some tokens are doubtful


@dataclass(frozen=True)
class Outcome:
    """How an engine found the field of one sequence.

    Attributes:
        log_evidence: the log evidence of the observation, or the objective that was maximised, in nats; None if the
            engine has neither.
        prior: the name of the prior with the highest evidence; "" for an engine without priors.
        evidences: prior -> its log evidence, for all priors that were tried.
        converged: whether the solver met its tolerance; None if it has none.
        gap: how far the objective may be from its optimum; None if that is not known.
        changes: the largest change of a weight in each iteration.
        cross_entropy: -log p of a visible token that was hidden, in nats, on average; None if none was.
        cross_entropy_error: the standard error of that mean; None if fewer than two tokens were hidden.
        local_gain: by how much local weights predict such a token better than one weight for the whole sequence, in nats, on
            average; neither has seen it. 0 if a single expert of several has a say; None if there is nothing to tell.
    """

    log_evidence: float | None = None
    prior: str = ""
    evidences: dict[str, float] = field(default_factory=dict)
    converged: bool | None = None
    gap: float | None = None
    changes: tuple[float, ...] = ()
    cross_entropy: float | None = None
    cross_entropy_error: float | None = None
    local_gain: float | None = None


@dataclass(frozen=True)
class Inferred:
    """The inferred composition of N sequences.

    Attributes:
        composition: the distribution of the field, which decoders use.
        field: (N, L, m) the mean weights, rows on the simplex. An expert that recalls has the weight 0 here, because
            its weight follows from what it predicts: see ``composition.gate``.
        regions: (N, L, m) the probability that each position is the text of each expert: the slow level of a two-level
            prior, else the field.
        doubt: (N, L) the probability that an observed token is wrong; 0 where it is known.
        scored: (N, L) True where evidence was gathered, and at lost positions.
        informed: (N,) False for a sequence without visible positions, whose field follows from the prior alone.
        outcomes: one for each sequence.
        cost: network evaluations and seconds.
    """

    composition: Composition
    field: Tensor
    regions: Tensor
    doubt: Tensor
    scored: Tensor
    informed: Tensor
    outcomes: tuple[Outcome, ...]
    cost: Cost

    @classmethod
    def given(cls, belief: Tensor | Composition, cost: Cost | None = None, doubt: Tensor | None = None) -> "Inferred":
        """Wrap a field (N, L, m) or a composition that was found without an engine."""
        composition = belief if isinstance(belief, Composition) else Composition.of_field(belief)
        mean = composition.mean()
        everywhere = torch.ones(mean.shape[:2], dtype=torch.bool)
        doubt = torch.zeros(mean.shape[:2], dtype=torch.float64) if doubt is None else doubt
        return cls(composition, mean, mean, doubt, everywhere, everywhere[:, 0], (), cost or Cost())


class Engine(Protocol):
    """Infers the composition of damaged sequences.

    An engine is a frozen record of its settings. The same generator state gives the same result.
    """

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""


def check_batch(team: Team, observation: Observation) -> None:
    """Raise unless the observation is a batch (N, L) of the team's tokens."""
    team.check(observation)
    if observation.tokens.ndim != 2 or 0 in observation.tokens.shape:
        raise ConservatorError(f"the observation has the shape {tuple(observation.tokens.shape)}; it must be (N, L)")


def informed(observation: Observation) -> Tensor:
    """(N,) whether anything is visible."""
    return ~observation.lost.all(-1)


def rounds_for(observation: Observation, rounds: int | None = None) -> int:
    """How often evidence is gathered: ``rounds`` times; for None once if every visible token is known, else ROUNDS."""
    if rounds is None:
        return ROUNDS if observation.uncertain.any() else 1
    if rounds < 1:
        raise ConservatorError(f"{rounds} rounds; at least one is needed")
    return rounds
