"""Decoders: from an inferred composition to tokens."""

from conservator.decoders.alternatives import Fill, best_fills
from conservator.decoders.predict import Reading, predict
from conservator.decoders.text import DecodedText, decode_text

__all__ = [
    "DecodedText",
    "Fill",
    "Reading",
    "best_fills",
    "decode_text",
    "predict",
]
