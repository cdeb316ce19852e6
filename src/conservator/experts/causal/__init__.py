"""Causal experts: frozen models that write a text from left to right, token by token, made to speak of bytes."""

from conservator.experts.causal.byte_conditionals import byte_conditionals
from conservator.experts.causal.expert import ROOT, CausalExpert, CausalSpec, Reading

__all__ = [
    "ROOT",
    "CausalExpert",
    "CausalSpec",
    "Reading",
    "byte_conditionals",
]
