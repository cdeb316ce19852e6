"""Decoders: from an inferred composition to text."""

from conservator.decoders.alternatives import Candidate, best_candidates, changed_tokens
from conservator.decoders.error_location import locate_errors
from conservator.decoders.predict import ContextPolicy, predict
from conservator.decoders.text import DecodedText, decode_text, with_loss_rates

__all__ = [
    "Candidate",
    "ContextPolicy",
    "DecodedText",
    "best_candidates",
    "changed_tokens",
    "decode_text",
    "locate_errors",
    "predict",
    "with_loss_rates",
]
