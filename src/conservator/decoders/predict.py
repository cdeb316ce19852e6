"""From what is believed of the field to tokens: in one step, or in several that read what was filled in."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.posterior import Decoded
from conservator.errors import ConservatorError
from conservator.experts.expert import Expert
from conservator.field.composite import Said, check_experts, read, readable, unknown
from conservator.field.composition import Composition
from conservator.field.cost import Cost


@dataclass(frozen=True)
class Reading:
    """How the experts read while they decode.

    Attributes:
        own_context: where the mean weight of an expert is below this, the text is hidden from it: an expert that was
            trained on pure documents is spared what is foreign to it. 0 shows everything to everyone.
    """

    own_context: float = 0.0

    def concealed(self, composition: Composition) -> Tensor | None:
        """(N, L, m) True where an expert does not see what is visible; None if they all see all of it."""
        return composition.mean() < self.own_context if self.own_context > 0 else None


def predict(
    experts: Sequence[Expert],
    tokens: Tensor,
    hidden: Tensor,
    composition: Composition,
    cost: Cost,
    reading: Reading | None = None,
) -> Iterator[tuple[Said, Tensor]]:
    """Predict hidden tokens from visible ones: equation (decode), before its argmax.

    Args:
        experts: m of them.
        tokens: (N, L).
        hidden: (N, L).
        composition: what is believed of the field.
        cost: counts what is spent.
        reading: how the experts read.

    Yields:
        What the experts said of some hidden positions, and the log-probabilities (n, V) there.
    """
    context = check_experts(experts, experts[0].spec.vocab_size)
    concealed = (reading or Reading()).concealed(composition)
    for said in read(experts, tokens, hidden[:, None], hidden[:, None], context, cost, concealed):
        yield said, composition.log_probs(said.log_probs, said.sequence, said.position)


def decode_one_step(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    reading: Reading | None = None,
) -> Decoded:
    """Fill every unknown position by its most likely token, all at once; what is visible is copied."""
    return decode_iteratively(experts, observation, composition, reading, steps=1)


def decode_iteratively(
    experts: Sequence[Expert],
    observation: Observation,
    composition: Composition,
    reading: Reading | None = None,
    steps: int = 12,
) -> Decoded:
    """Fill the unknown positions in ``steps`` equal parts, the surest first; each part is read with the ones before.

    The confidence of a token is its probability in the step that chose it.
    """
    if steps < 1:
        raise ConservatorError(f"{steps} steps; at least one is needed")
    tokens, hidden, cost = readable(observation), unknown(observation), Cost()
    confidence = torch.ones(tokens.shape, dtype=torch.float64)
    with cost.timed():
        for step in range(steps):
            if not hidden.any():
                break
            best = torch.full(tokens.shape, -math.inf, dtype=torch.float64)
            choice = tokens.clone()
            for said, log_probs in predict(experts, tokens, hidden, composition, cost, reading):
                top, chosen = log_probs.max(dim=-1)
                best[said.sequence, said.position] = top.double()
                choice[said.sequence, said.position] = chosen
            left = hidden.sum(-1, keepdim=True)
            wanted = (left + steps - step - 1) // (steps - step)  # an equal part of what is left, rounded up
            rank = best.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
            filled = hidden & (rank < wanted)
            tokens = torch.where(filled, choice, tokens)
            confidence = torch.where(filled, best.exp(), confidence)
            hidden = hidden & ~filled
    return Decoded(tokens, confidence, cost)
