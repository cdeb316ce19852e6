"""From a field to tokens."""

from conservator.decoders.overturn import decode_with_channel
from conservator.decoders.posterior import Decoded, decode_posterior
from conservator.decoders.predict import Reading, decode_iteratively, decode_one_step

__all__ = ["Decoded", "Reading", "decode_iteratively", "decode_one_step", "decode_posterior", "decode_with_channel"]
