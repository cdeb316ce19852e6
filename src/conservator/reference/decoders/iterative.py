"""Decode hidden tokens in one step, or in several steps that condition on the tokens filled in before."""

import math

import torch

from conservator.channels import Observation
from conservator.decoders.predict import Reading, predict
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import Composition
from conservator.reference.decoders.decoded import Decoded


def decode_one_step(
    team: Team, observation: Observation, composition: Composition, reading: Reading | None = None
) -> Decoded:
    """Fill every hidden position by its most likely token, all at once; visible tokens are copied."""
    return decode_iteratively(team, observation, composition, reading, steps=1)


def decode_iteratively(
    team: Team,
    observation: Observation,
    composition: Composition,
    reading: Reading | None = None,
    steps: int = 12,
) -> Decoded:
    """Fill the hidden positions in ``steps`` equal parts, the most confident first, each given the parts before it.

    The confidence of a token is its probability in the step that chose it.
    """
    if steps < 1:
        raise ConservatorError(f"{steps} steps; at least one is needed")
    team.check(observation)
    tokens, hidden = observation.readable, observation.hidden
    confidence = torch.ones(tokens.shape, dtype=torch.float64)
    with team.meter.measure() as spent:
        for step in team.meter.steps(range(steps)):
            if not hidden.any():
                break
            best = torch.full(tokens.shape, -math.inf, dtype=torch.float64)
            choice = tokens.clone()
            for found, log_probs in predict(team, tokens, hidden, composition, reading, observation.excerpt):
                top, chosen = log_probs.max(dim=-1)
                best[found.sequence, found.position] = top.double()
                choice[found.sequence, found.position] = chosen
            left = hidden.sum(-1, keepdim=True)
            wanted = (left + steps - step - 1) // (steps - step)  # an equal part of what is left, rounded up
            rank = best.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
            filled = hidden & (rank < wanted)
            tokens = torch.where(filled, choice, tokens)
            confidence = torch.where(filled, best.exp(), confidence)
            hidden = hidden & ~filled
    return Decoded(tokens, confidence, spent.cost)
