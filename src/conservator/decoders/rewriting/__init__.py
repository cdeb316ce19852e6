"""Rewriting: causal experts write the damaged stretches of a text again."""

from conservator.decoders.rewriting.regions import BLOCK
from conservator.decoders.rewriting.rewrite import ROUNDS, Judged, Rewritten, rewrite
from conservator.decoders.rewriting.search import Limits

__all__ = ["BLOCK", "ROUNDS", "Judged", "Limits", "Rewritten", "rewrite"]
