"""The channel-aware posterior decoder: it may replace an observed token."""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.errors import ConservatorError
from conservator.reference.decoders.decoded import Decoded


def decode_posterior(observation: Observation, log_probs: Tensor) -> Decoded:
    """Decode x_l = argmax_v c_l(v) pi_l(v), exact for position-factorised priors.

    Args:
        observation: tokens (..., L).
        log_probs: (L, V) or (..., L, V), the composed prior log pi.
    """
    impossible = torch.isneginf(observation.likelihood.log_evidence(log_probs))
    if impossible.any():
        position = impossible.nonzero()[0].tolist()[-1]
        raise ConservatorError(f"the token at position {position} has probability 0 under the channel and the experts")
    confidence, tokens = observation.likelihood.log_posterior(log_probs).max(dim=-1)
    return Decoded(tokens, confidence.exp())
