"""The engine contract: infer the composition of a damaged observation."""

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.experts import Cost, Team
from conservator.field.composition import Composition

UNCERTAIN_ITERATIONS = 3  # iterations: evidence and error probabilities with uncertain tokens [LOG: uncertain-bytes]


@dataclass(frozen=True)
class Outcome:
    """Statistics of the inference of one sequence.

    Attributes:
        log_evidence: the log evidence of the observation, or the maximised objective, in nats; None if the engine has
            neither.
        prior: the name of the prior with the highest evidence; "" for an engine without priors.
        evidences: prior name -> log evidence, for all candidate priors.
        converged: whether the solver met its tolerance; None without a solver.
        gap: upper bound of the distance of the objective from its optimum; None if unknown.
        changes: the largest change of a weight in each iteration.
        cross_entropy: mean negative log-probability of hidden visible tokens, in nats; None if none was hidden.
        cross_entropy_error: the standard error of that mean; None if fewer than two tokens were hidden.
        local_gain: improvement of local over global weights in the mean log-probability of hidden visible tokens, in
            nats; the experts did not read these tokens. 0 if a single expert of several is active; None with one expert
            or without hidden tokens.
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
        field: (N, L, m) the mean weights, rows on the simplex. The weight of a gated expert is 0 here, because it
            depends on its predictions: see ``composition.gates``.
        regions: (N, L, m) the probability that each position belongs to a domain segment of each expert: the slow level
            of a two-level prior, else the field.
        error_probs: (N, L) the probability that an observed token is wrong; 0 at known tokens.
        scored: (N, L) True where evidence was gathered, and at lost positions.
        has_visible: (N,) False for a sequence without visible positions, whose field follows from the prior alone.
        outcomes: one for each sequence.
        cost: network evaluations and seconds.
    """

    composition: Composition
    field: Tensor
    regions: Tensor
    error_probs: Tensor
    scored: Tensor
    has_visible: Tensor
    outcomes: tuple[Outcome, ...]
    cost: Cost

    @classmethod
    def given(
        cls, weights: Tensor | Composition, cost: Cost | None = None, error_probs: Tensor | None = None
    ) -> "Inferred":
        """Wrap a field (N, L, m) or a composition that was not inferred by an engine."""
        composition = weights if isinstance(weights, Composition) else Composition.of_field(weights)
        mean = composition.mean()
        everywhere = torch.ones(mean.shape[:2], dtype=torch.bool)
        error_probs = torch.zeros(mean.shape[:2], dtype=torch.float64) if error_probs is None else error_probs
        return cls(composition, mean, mean, error_probs, everywhere, everywhere[:, 0], (), cost or Cost())


class Engine(Protocol):
    """Infer the composition of damaged sequences.

    An engine is a frozen record of its settings. The same generator state gives the same result.
    """

    def __call__(self, team: Team, observation: Observation, generator: torch.Generator) -> Inferred:
        """Infer the composition of an observation (N, L)."""


def check_batch(team: Team, observation: Observation) -> None:
    """Raise unless the observation is a batch (N, L) of the team's tokens."""
    team.check(observation)
    if observation.tokens.ndim != 2 or 0 in observation.tokens.shape:
        raise ConservatorError(
            f"the observation must have the shape (N, L) with N, L >= 1, got {tuple(observation.tokens.shape)}"
        )


def has_visible(observation: Observation) -> Tensor:
    """Return (N,) whether a sequence has visible positions."""
    return ~observation.lost.all(-1)


def iterations_for(observation: Observation, iterations: int | None = None) -> int:
    """Return the number of iterations; None for 1 if no token is uncertain, else UNCERTAIN_ITERATIONS."""
    if iterations is None:
        return UNCERTAIN_ITERATIONS if observation.uncertain.any() else 1
    if iterations < 1:
        raise ConservatorError(f"iterations must be at least 1, got {iterations}")
    return iterations
