"""The channel-aware decoder for learned experts: an observed token may be overturned."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from conservator.channels import MaskChannel, Observation
from conservator.decoders.posterior import Decoded, decode_posterior
from conservator.decoders.predict import Reading
from conservator.experts.expert import Expert
from conservator.field.composite import Said, check_experts, conceal, read, readable
from conservator.field.cost import Cost
from conservator.field.folds import Schedule
from conservator.field.infer import Inferred


def decode_with_channel(
    experts: Sequence[Expert],
    observation: Observation,
    inferred: Inferred,
    folds: int,
    generator: torch.Generator,
    reading: Reading | None = None,
) -> Decoded:
    """Decode x_l = argmax_v c_l(v) p(v | the others), with p the posterior predictive of the composition.

    Arguments as in ``predict_with_channel``. Under a mask channel visible tokens are copied.
    """
    channel, cost = observation.channel, Cost()
    restored = readable(observation)
    confidence = torch.ones(restored.shape, dtype=torch.float64)
    with cost.timed():
        for said, log_probs in predict_with_channel(experts, observation, inferred, folds, generator, cost, reading):
            place = (said.sequence, said.position)
            local = decode_posterior(channel.observe(observation.tokens[place]), log_probs)
            restored[place], confidence[place] = local.tokens, local.confidence
    return Decoded(restored, confidence, cost)


def predict_with_channel(
    experts: Sequence[Expert],
    observation: Observation,
    inferred: Inferred,
    folds: int,
    generator: torch.Generator,
    cost: Cost,
    reading: Reading | None = None,
) -> Iterator[tuple[Said, Tensor]]:
    """Predict every position that may be wrong from the others.

    Each position is predicted while it is hidden itself, with its fold, and other tokens in proportion to the doubt
    about them. A hidden position is predicted from what is visible.

    Args:
        experts: m of them.
        observation: (N, L).
        inferred: what was inferred of it.
        folds: into how many parts the visible positions are hidden, in turn.
        generator: the source of all randomness.
        cost: counts what is spent.
        reading: how the experts read.

    Yields:
        What the experts said of some positions, and the log-probabilities (n, V) there, without the channel's word.
    """
    channel = observation.channel
    context = check_experts(experts, channel.vocab_size)
    doubtful = torch.zeros_like(observation.hidden) if isinstance(channel, MaskChannel) else ~observation.hidden
    patterns = Schedule(folds).draw(doubtful, generator)
    scored = torch.cat([patterns, observation.hidden[:, None]], dim=1)
    concealed = conceal(scored, observation, inferred.doubt, generator)
    foreign = (reading or Reading()).concealed(inferred.composition)
    for said in read(experts, observation.tokens, concealed, scored, context, cost, foreign):
        log_probs = inferred.composition.log_probs(said.log_probs, said.sequence, said.position)
        yield said, log_probs.double()
