"""The channel-aware decoder for learned experts: an observed token may be overturned."""

from collections.abc import Sequence

import torch

from conservator.channels import Observation
from conservator.decoders.posterior import Decoded, decode_posterior
from conservator.experts.expert import Expert
from conservator.field.composite import Cost, check_experts, read
from conservator.field.folds import Schedule
from conservator.field.infer import Inferred


def decode_with_channel(
    experts: Sequence[Expert],
    observation: Observation,
    inferred: Inferred,
    schedule: Schedule,
    generator: torch.Generator,
    cost: Cost,
) -> Decoded:
    """Decode x_l = argmax_v c_l(v) p(v | the others), with p the posterior predictive of the composition.

    Each position is predicted while it is hidden itself, with its fold, and other tokens in proportion to the doubt
    about them. A hidden position is predicted from what is visible; under a mask channel visible tokens are copied.

    Args:
        experts: m of them.
        observation: (N, L).
        inferred: what was inferred of it.
        schedule: its first partition says which positions are hidden together.
        generator: the source of all randomness.
        cost: counts what is spent.
    """
    context = check_experts(experts, observation.channel.vocab_size)
    doubtful = inferred.doubt > 0
    patterns = Schedule(schedule.folds).draw(doubtful, generator)
    scored = torch.cat([patterns, observation.hidden[:, None]], dim=1)
    distrusted = torch.rand(scored.shape, generator=generator) < inferred.doubt[:, None]
    concealed = scored | observation.hidden[:, None] | distrusted
    tokens = observation.tokens.masked_fill(observation.hidden, 0)
    confidence = torch.ones(tokens.shape, dtype=torch.float64)
    restored = tokens.clone()
    for said in read(experts, tokens, concealed, scored, context, cost):
        place = (said.sequence, said.position)
        log_probs = inferred.composition.log_probs(said.log_probs, *place)
        local = decode_posterior(observation.channel.observe(observation.tokens[place]), log_probs.double())
        restored[place], confidence[place] = local.tokens, local.confidence
    return Decoded(restored, confidence)
