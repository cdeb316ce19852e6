"""Locate wrong tokens: decide which uncertain tokens of an observation are hidden from the experts."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from conservator.channels import Observation, Status
from conservator.channels.likelihood import pick
from conservator.experts import Team
from conservator.field import Engine, Inferred
from conservator.vocabularies import BYTES


@dataclass(frozen=True)
class LocationConfig:
    """Parameters of ``locate_errors``."""

    rounds: int = 2  # rounds: of inference and prediction [LOG: uncertain-bytes]
    folds: int = 8  # folds: of the uncertain tokens in the first round [LOG: uncertain-bytes]
    later_folds: int = 3  # folds: of the tokens that may be wrong, in later rounds [LOG: uncertain-bytes]
    min_error_prob: float = 0.002  # probability: tokens below it are not predicted again [LOG: uncertain-bytes]
    # probability: tokens above it are hidden while other tokens are predicted [LOG: uncertain-bytes]
    hidden_error_prob: float = 0.5
    decoded_error_prob: float = 0.02  # probability: tokens above it are decoded [LOG: uncertain-bytes]


CONFIG = LocationConfig()
DIGITS = slice(ord("0"), ord("9") + 1)


def locate_errors(
    team: Team,
    observation: Observation,
    engine: Engine,
    generator: torch.Generator,
    decoded_error_prob: float,
) -> tuple[Observation, Inferred]:
    """Hide the tokens of a document that are probably wrong, and infer the composition from the others.

    The error probability of a token y_l is that of the channel's posterior, given the visible tokens:

        1 - c_l(y_l) pi_l(y_l) / sum_v c_l(v) pi_l(v)

    In each round, the engine infers the composition from the tokens that are probably correct, and the experts predict
    every token that may be wrong from them. Tokens that are predicted at once are far apart: their neighbours are
    visible. In the first round, only tokens that the constraint rules out are hidden.

    Args:
        team: m experts.
        observation: the document (1, L), with uncertain tokens.
        engine: infers the composition.
        generator: the source of all randomness.
        decoded_error_prob: tokens with a higher error probability are hidden in the result.

    Returns:
        The observation in which tokens that may be wrong are lost, but keep their likelihood, and all others are known;
        and the inferred composition, with the error probabilities of all tokens.
    """
    error_probs = (observation.hidden | find_violations(team, observation, observation.hidden)).double()
    pending, folds = observation.uncertain, CONFIG.folds
    for _ in team.meter.steps(range(CONFIG.rounds)):
        visible = observation.with_hidden(error_probs > CONFIG.hidden_error_prob)
        inferred = engine(team, visible, generator)
        predict_errors(team, observation, visible, inferred, spread_folds(pending, folds), error_probs)
        pending = observation.uncertain & (error_probs > CONFIG.min_error_prob)
        folds = CONFIG.later_folds
    error_probs = error_probs.masked_fill(~observation.uncertain, 0.0)
    hidden = error_probs > decoded_error_prob
    hidden |= find_violations(team, observation, hidden)
    return observation.with_hidden(hidden), replace(inferred, error_probs=error_probs)


def predict_errors(
    team: Team,
    observation: Observation,
    visible: Observation,
    inferred: Inferred,
    patterns: Tensor,
    error_probs: Tensor,
) -> None:
    """Replace the error probabilities (1, L) of all tokens that a pattern hides.

    Args:
        team: m experts.
        observation: the document.
        visible: the document as the experts read it.
        inferred: its inferred composition.
        patterns: (1, K, L) the tokens that are predicted at once.
        error_probs: (1, L) is changed in place.
    """
    composition = inferred.composition
    batches = team.read(
        observation.readable, patterns | visible.lost[:, None], patterns, active=composition.active_experts()
    )
    for predictions in batches:
        index = (predictions.sequence, predictions.position)
        log_probs = composition.log_probs(predictions.log_probs, *index).double()
        if team.vocabulary is BYTES:
            log_probs = with_equal_digits(log_probs)
        observed = observation[index]
        correct = observed.log_same() + pick(log_probs, observed.readable) - observed.likelihood.log_evidence(log_probs)
        error_probs[index] = -torch.expm1(correct.clamp(max=0.0))


def with_equal_digits(log_probs: Tensor) -> Tensor:
    """Return predictions (n, V) in which the digits share their probability: numbers cannot be predicted."""
    log_probs = log_probs.clone()
    digits = log_probs[:, DIGITS]
    log_probs[:, DIGITS] = digits.logsumexp(dim=-1, keepdim=True) - math.log(digits.shape[1])
    return log_probs


def spread_folds(positions: Tensor, count: int) -> Tensor:
    """Return (1, count, L) a partition of ``positions`` (1, L), in which neighbours are in different folds."""
    fold = (positions.long().cumsum(-1) % count).masked_fill(~positions, -1)
    return fold[:, None] == torch.arange(count)[:, None]


def find_violations(team: Team, observation: Observation, hidden: Tensor) -> Tensor:
    """Return (1, L) True at a smallest set of uncertain tokens without which the other visible tokens are allowed.

    Args:
        team: m experts.
        observation: the document; its known tokens are complete characters, as fixed text is.
        hidden: (1, L) tokens that are hidden in any case.
    """
    constraint = team.vocabulary.constraint
    if constraint is None:
        return torch.zeros_like(hidden)
    tokens = observation.readable.masked_fill(observation.hidden | hidden, team.vocabulary.mask)
    tokens = tokens.masked_fill(observation.status == Status.KNOWN, 0)  # a character that violates nothing
    return torch.from_numpy(constraint.violations(tokens[0].numpy()))[None]
