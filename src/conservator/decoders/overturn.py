"""The channel-aware decoder for learned experts: an observed token may be overturned."""

from collections.abc import Sequence

import torch

from conservator.channels import MaskChannel, Observation
from conservator.decoders.posterior import Decoded, decode_posterior
from conservator.decoders.predict import Reading
from conservator.experts.expert import Expert
from conservator.field.composite import check_experts, conceal, read, readable
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

    Each position is predicted while it is hidden itself, with its fold, and other tokens in proportion to the doubt
    about them. A hidden position is predicted from what is visible; under a mask channel visible tokens are copied.

    Args:
        experts: m of them.
        observation: (N, L).
        inferred: what was inferred of it.
        folds: into how many parts the visible positions are hidden, in turn.
        generator: the source of all randomness.
        reading: how the experts read.
    """
    channel, cost = observation.channel, Cost()
    context = check_experts(experts, channel.vocab_size)
    doubtful = torch.zeros_like(observation.hidden) if isinstance(channel, MaskChannel) else ~observation.hidden
    with cost.timed():
        patterns = Schedule(folds).draw(doubtful, generator)
        scored = torch.cat([patterns, observation.hidden[:, None]], dim=1)
        concealed = conceal(scored, observation, inferred.doubt, generator)
        restored = readable(observation)
        confidence = torch.ones(restored.shape, dtype=torch.float64)
        foreign = (reading or Reading()).concealed(inferred.composition)
        for said in read(experts, observation.tokens, concealed, scored, context, cost, foreign):
            place = (said.sequence, said.position)
            log_probs = inferred.composition.log_probs(said.log_probs, *place)
            local = decode_posterior(channel.observe(observation.tokens[place]), log_probs.double())
            restored[place], confidence[place] = local.tokens, local.confidence
    return Decoded(restored, confidence, cost)
