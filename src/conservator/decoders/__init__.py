"""Decoders: from an inferred composition to tokens."""

from conservator.decoders.beam import Fill, best_fills
from conservator.decoders.decoded import Decoded
from conservator.decoders.overturn import decode_with_channel
from conservator.decoders.posterior import decode_posterior
from conservator.decoders.predict import Reading, decode_iteratively, decode_one_step, predict
from conservator.decoders.text import DecodedText, decode_text
from conservator.decoders.uniform import decode_uniform, sample_uniform

__all__ = [
    "Decoded",
    "DecodedText",
    "Fill",
    "Reading",
    "best_fills",
    "decode_iteratively",
    "decode_one_step",
    "decode_posterior",
    "decode_text",
    "decode_uniform",
    "decode_with_channel",
    "predict",
    "sample_uniform",
]
