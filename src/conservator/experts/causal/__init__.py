"""Causal experts: frozen models that write a text from left to right, token by token, made to speak of bytes."""

from conservator.experts.causal.contract import ROOT, CausalExpert, CausalSpec, Reading
from conservator.experts.causal.enumeration import enumerate_texts
from conservator.experts.causal.laws import byte_laws
from conservator.experts.causal.markov import MarkovExpert
from conservator.experts.causal.spelling import Spelled, Speller, score_bytes

__all__ = [
    "ROOT",
    "CausalExpert",
    "CausalSpec",
    "MarkovExpert",
    "Reading",
    "Spelled",
    "Speller",
    "byte_laws",
    "enumerate_texts",
    "score_bytes",
]
