"""The engine contract: from a damaged observation to what is believed of its composition."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import Cost, Team
from conservator.field.composition import Composition

ROUNDS = 3  # of gathering evidence and doubting tokens, where some are doubtful


@dataclass(frozen=True)
class Outcome:
    """How an engine came to the field of one sequence.

    Attributes:
        log_evidence: of what was seen, or the objective that was maximised, nats; None where there is neither.
        prior: the name of the prior that the evidence chose; "" for an engine without priors.
        evidences: prior -> its log evidence, for all that were tried.
        converged: whether the solver met its tolerance; None where none is claimed.
        gap: how far the objective may be from its optimum; None where that is not known.
        changes: the largest change of a weight in each iteration.
    """

    log_evidence: float | None = None
    prior: str = ""
    evidences: dict[str, float] = field(default_factory=dict)
    converged: bool | None = None
    gap: float | None = None
    changes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Inferred:
    """What was inferred of N sequences.

    Attributes:
        composition: what is believed of the field; decoders take it.
        field: (N, L, m) the mean weights, rows on the simplex.
        regions: (N, L, m) whose text each position is: the slow level of a two-level prior, else the field.
        doubt: (N, L) the probability that a visible token is not what was seen; 0 where it is known.
        scored: (N, L) True where the field rests on evidence or is used: near damage, if the engine looks no further.
        informed: (N,) False where nothing was visible, so that the field is the prior's.
        outcomes: one a sequence.
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
        """A field (N, L, m) or a composition that was found without an engine."""
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
    """How often evidence is gathered: once where every visible token is known, else ROUNDS times."""
    if rounds is None:
        return ROUNDS if observation.doubtful.any() else 1
    if rounds < 1:
        raise ConservatorError(f"{rounds} rounds; at least one is needed")
    return rounds
