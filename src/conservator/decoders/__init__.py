"""From a field to tokens."""

from conservator.decoders.posterior import Decoded, decode_posterior

__all__ = ["Decoded", "decode_posterior"]
