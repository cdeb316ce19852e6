"""Rewriting: causal experts write the damaged stretches of a text again."""

from conservator.decoders.rescoring.rescore import ROUNDS, Judged, Rescored, rewrite
from conservator.decoders.rescoring.search import Limits
from conservator.decoders.rescoring.spans import BLOCK

__all__ = ["BLOCK", "ROUNDS", "Judged", "Limits", "Rescored", "rewrite"]
