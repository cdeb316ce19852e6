"""Rewriting: causal experts write the damaged stretches of a text again."""

from conservator.decoders.rewriting.rewrite import Judged, Rewritten, rewrite
from conservator.decoders.rewriting.search import Limits

__all__ = ["Judged", "Limits", "Rewritten", "rewrite"]
