"""Decoders: from an inferred composition to tokens."""

from conservator.decoders.alternatives import Candidate, best_candidates
from conservator.decoders.predict import Reading, predict
from conservator.decoders.text import DecodedText, decode_text

__all__ = [
    "Candidate",
    "DecodedText",
    "Reading",
    "best_candidates",
    "decode_text",
    "predict",
]
