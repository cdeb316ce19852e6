"""The decoder of documents: the best valid UTF-8 that the experts and the channel allow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.decoders.overturn import predict_with_channel
from conservator.decoders.predict import predict
from conservator.documents.utf8 import LOST, Candidates, best_utf8
from conservator.experts.expert import Expert
from conservator.field.composite import readable
from conservator.field.cost import Cost
from conservator.field.infer import Inferred

FOLDS = 5  # into which visible bytes are hidden in turn, where they may be wrong too
STEPS = 2  # in which lost bytes are filled: the surer half, then the rest, which is read again with it


@dataclass(frozen=True)
class DecodedText:
    """A document that can be read.

    Attributes:
        tokens: (L,) bytes, valid UTF-8 together.
        confidence: (L,) the probability of each, given that the document is valid; 1 where it was visible.
        context: (L,) what the last ones were read with: bytes that were visible or sure, else LOST.
        log_probs: (L', 256) float16, what was thought of each lost byte, in their order; None where not asked for.
        cost: what it took.
    """

    tokens: NDArray[np.int64]
    confidence: NDArray[np.float64]
    context: NDArray[np.int64]
    log_probs: Tensor | None
    cost: Cost


def decode_text(
    experts: Sequence[Expert],
    observation: Observation,
    inferred: Inferred,
    generator: torch.Generator,
    *,
    keep: bool = False,
) -> DecodedText:
    """Choose all lost bytes of a document (1, L) together, so that it is the most likely valid UTF-8.

    The surer half is chosen from what is visible, the rest from what is visible and the surer half. Under a channel
    that does not say which bytes are wrong, all of them are chosen, in one step.

    Args:
        experts: m of them, over bytes.
        observation: the document.
        inferred: what was inferred of it.
        generator: draws what is hidden in turn, where bytes may be wrong.
        keep: return ``log_probs``.
    """
    certain = isinstance(observation.channel, MaskChannel)
    choose = observation.hidden[0] if certain else torch.ones_like(observation.hidden[0])
    row = choose.cumsum(0) - 1
    count = int(choose.sum())
    candidates, cost = Candidates.empty(count), Cost()
    kept = torch.empty(count, 256, dtype=torch.float16) if keep else None
    tokens = context = readable(observation)[0].masked_fill(choose, LOST).numpy()

    def take(position: Tensor, log_probs: Tensor) -> None:
        candidates.put(row[position].numpy(), Candidates.of(log_probs))
        if kept is not None:
            kept[row[position]] = log_probs.half()

    with cost.timed():
        for position, log_probs in _weigh(experts, observation, inferred, generator, cost):
            take(position, log_probs)
        chosen, confidence = best_utf8(tokens, candidates)
        if certain and count:
            unsure = choose & torch.from_numpy(confidence < np.median(confidence[choose.numpy()]))
            context = np.where(unsure.numpy(), LOST, chosen)
            filled = torch.from_numpy(chosen)[None]
            for said, log_probs in predict(experts, filled, unsure[None], inferred.composition, cost):
                take(said.position, log_probs)
            chosen, confidence = best_utf8(tokens, candidates)
    return DecodedText(chosen, confidence, context, kept, cost)


def _weigh(
    experts: Sequence[Expert], observation: Observation, inferred: Inferred, generator: torch.Generator, cost: Cost
) -> Iterator[tuple[Tensor, Tensor]]:
    """Positions (n,) and the log-probabilities (n, 256) of their bytes, after the channel had its word."""
    channel = observation.channel
    if isinstance(channel, MaskChannel):
        for said, log_probs in predict(experts, readable(observation), observation.hidden, inferred.composition, cost):
            yield said.position, log_probs
        return
    for said, log_probs in predict_with_channel(experts, observation, inferred, FOLDS, generator, cost):
        seen = channel.observe(observation.tokens[said.sequence, said.position])
        yield said.position, channel.log_posterior(seen, log_probs)
