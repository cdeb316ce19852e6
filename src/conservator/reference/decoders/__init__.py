"""Decoders of the paper: one step, iterative, channel posterior, uniform source."""

from conservator.reference.decoders.channel import decode_with_channel
from conservator.reference.decoders.decoded import Decoded
from conservator.reference.decoders.iterative import decode_iteratively, decode_one_step
from conservator.reference.decoders.posterior import decode_posterior
from conservator.reference.decoders.uniform import decode_uniform, sample_uniform

__all__ = [
    "Decoded",
    "decode_iteratively",
    "decode_one_step",
    "decode_posterior",
    "decode_uniform",
    "decode_with_channel",
    "sample_uniform",
]
