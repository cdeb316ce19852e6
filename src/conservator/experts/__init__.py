"""Frozen denoisers q_i: the contract, and the exact experts on which every estimator is tested."""

from conservator.experts.bigram import BigramExpert
from conservator.experts.categorical import CategoricalExpert
from conservator.experts.enumeration import all_sequences
from conservator.experts.expert import Expert, ExpertSpec

__all__ = [
    "BigramExpert",
    "CategoricalExpert",
    "Expert",
    "ExpertSpec",
    "all_sequences",
]
