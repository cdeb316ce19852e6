"""Decoders: from an inferred composition to text."""

from conservator.decoders.alternatives import Candidate, best_candidates
from conservator.decoders.predict import ContextPolicy, predict
from conservator.decoders.text import DecodedText, decode_text, with_loss_rates

__all__ = [
    "Candidate",
    "ContextPolicy",
    "DecodedText",
    "best_candidates",
    "decode_text",
    "predict",
    "with_loss_rates",
]
