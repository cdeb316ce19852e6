"""Decode with the likelihood of the channel: an observed token may be replaced (appendix "Decoders")."""

import torch

from conservator.channels import Observation
from conservator.decoders.predict import ContextPolicy
from conservator.decoders.predict_with_channel import predict_with_channel
from conservator.experts import Team
from conservator.field import Inferred
from conservator.reference.decoders.decoded import Decoded
from conservator.reference.decoders.posterior import decode_posterior


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
