"""Causal experts: frozen models that predict text from left to right, and their conditionals of bytes."""

from conservator.experts.causal.byte_conditionals import byte_conditionals
from conservator.experts.causal.expert import ROOT, CausalExpert, CausalSpec, TokenTree

__all__ = [
    "ROOT",
    "CausalExpert",
    "CausalSpec",
    "TokenTree",
    "byte_conditionals",
]
