"""The channel-aware posterior decoder, which may replace an observed token (appendix "Decoders")."""

import torch
from torch import Tensor

from conservator.channels import Observation
from conservator.decoders.predict import ContextPolicy
from conservator.errors import ConservatorError
from conservator.experts import Team
from conservator.field import Inferred
from conservator.reference.decoders.decoded import Decoded
from conservator.reference.decoders.predict_with_channel import predict_with_channel


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


def decode_with_channel(
    team: Team,
    observation: Observation,
    inferred: Inferred,
    folds: int,
    generator: torch.Generator,
    policy: ContextPolicy | None = None,
) -> Decoded:
    """Decode x_l = argmax_v c_l(v) p(v | other tokens), with p the posterior predictive of the composition.

    Arguments as in ``predict_with_channel``. Known tokens are copied.
    """
    restored = observation.readable
    confidence = torch.ones(restored.shape, dtype=torch.float64)
    with team.meter.measure() as spent:
        for predictions, log_probs in predict_with_channel(team, observation, inferred, folds, generator, policy):
            index = (predictions.sequence, predictions.position)
            decoded = decode_posterior(observation[index], log_probs)
            restored[index], confidence[index] = decoded.tokens, decoded.confidence
    return Decoded(restored, confidence, spent.cost)
