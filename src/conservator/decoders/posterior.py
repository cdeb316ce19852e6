"""The channel-aware posterior decoder: it may overturn an observed token."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.field.cost import Cost


@dataclass(frozen=True)
class Decoded:
    """Restored tokens and how sure each is.

    Attributes:
        tokens: (..., L) the mode of gamma_l at every position.
        confidence: (..., L) its posterior probability.
        cost: what it took.
    """

    tokens: Tensor
    confidence: Tensor
    cost: Cost = field(default_factory=Cost)


def decode_posterior(observation: Observation, log_probs: Tensor) -> Decoded:
    """Decode x_l = argmax_v c_l(v) pi_l(v), exact for position-factorised priors.

    Args:
        observation: tokens (..., L).
        log_probs: (L, V) or (..., L, V), the composed prior log pi.
    """
    impossible = torch.isneginf(observation.channel.log_evidence(observation, log_probs))
    if impossible.any():
        position = impossible.nonzero()[0].tolist()[-1]
        raise ConservatorError(f"the token at position {position} is impossible under the channel and the experts")
    confidence, tokens = observation.channel.log_posterior(observation, log_probs).max(dim=-1)
    return Decoded(tokens, confidence.exp())
