"""Decode hidden tokens in one step, equation (decode), or in several steps that condition on earlier choices."""

import math

import torch

from conservator.channels import Observation
from conservator.decoders.predict import ContextPolicy, predict
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import Composition
from conservator.reference.decoders.decoded import Decoded


def decode_one_step(
    team: Team, observation: Observation, composition: Composition, policy: ContextPolicy | None = None
) -> Decoded:
    """Fill every hidden position with its most likely token, all at once; visible tokens are copied."""
    return decode_iteratively(team, observation, composition, policy, steps=1)


def decode_iteratively(
    team: Team,
    observation: Observation,
    composition: Composition,
    policy: ContextPolicy | None = None,
    steps: int = 12,
) -> Decoded:
    """Fill the hidden positions in ``steps`` equal parts, the most confident first, each given the earlier parts.

    The confidence of a token is its probability in the step that chose it.
    """
    if steps < 1:
        raise ConservatorError(f"steps must be at least 1, got {steps}")
    team.check(observation)
    tokens, hidden = observation.readable, observation.hidden
    confidence = torch.ones(tokens.shape, dtype=torch.float64)
    with team.meter.measure() as spent:
        for step in team.meter.steps(range(steps)):
            if not hidden.any():
                break
            best = torch.full(tokens.shape, -math.inf, dtype=torch.float64)
            choice = tokens.clone()
            for predictions, log_probs in predict(team, tokens, hidden, composition, policy, observation.excerpt):
                top, chosen = log_probs.max(dim=-1)
                best[predictions.sequence, predictions.position] = top.double()
                choice[predictions.sequence, predictions.position] = chosen
            remaining = hidden.sum(-1, keepdim=True)
            count = (remaining + steps - step - 1) // (steps - step)  # an equal part, rounded up
            rank = best.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
            filled = hidden & (rank < count)
            tokens = torch.where(filled, choice, tokens)
            confidence = torch.where(filled, best.exp(), confidence)
            hidden = hidden & ~filled
    return Decoded(tokens, confidence, spent.cost)
